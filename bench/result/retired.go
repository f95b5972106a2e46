package result

import (
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"ipcbench/internal/machine"
)

// retired is the type of a key that older builds wrote and this build does not use. Any value
// is accepted and dropped, and the key is never written. All retired keys are in this file; any
// other unknown key is an error.
type retired struct{}

func (*retired) UnmarshalJSONFrom(d *jsontext.Decoder) error { return d.SkipValue() }

// IsZero returns true, so that omitzero leaves the key out.
func (retired) IsZero() bool { return true }

type retiredPlan struct {
	Budget retired `json:"budget_ns,omitzero"`
}

// checks reads the checks of a result. Older builds also wrote a key figures in each.
type checks []machine.Check

func (c *checks) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	var all []struct {
		machine.Check
		Figures retired `json:"figures"`
	}
	if err := json.UnmarshalDecode(d, &all); err != nil {
		return err
	}
	for _, x := range all {
		*c = append(*c, x.Check)
	}
	return nil
}

// retiredCell holds a key of builds that compared the clocks of hosts: the blocks discarded
// because a clock stepped.
type retiredCell struct {
	Discarded retired `json:"discarded,omitzero"`
}

// retiredBlock holds the key that the same builds wrote in each block.
type retiredBlock struct {
	Clocks otherClocks `json:"clocks,omitzero"`
}

// otherClocks lists the hosts of a block whose clock differed from the server's. Those builds
// converted times between clocks; such times are dropped, see [Result.upgrade].
type otherClocks []string

func (o *otherClocks) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	var all []struct { // other keys: offset_ns, width_ns, drift_ppm
		Host string `json:"host"`
		Same bool   `json:"same"`
	}
	if err := json.UnmarshalDecode(d, &all, json.RejectUnknownMembers(false)); err != nil {
		return err
	}
	for _, c := range all {
		if !c.Same {
			*o = append(*o, c.Host)
		}
	}
	return nil
}

// IsZero returns true, so that omitzero leaves the key out.
func (otherClocks) IsZero() bool { return true }

// upgrade changes a result of an older build to the form that this build writes.
func (r *Result) upgrade() {
	cells := slices.Clip(r.Cells)
	if r.Canary != nil {
		cells = append(cells, r.Canary.Same, r.Canary.Slow)
	}
	for _, c := range cells {
		for i := range c.Blocks {
			c.Blocks[i].upgrade()
		}
	}
}

func (b *Block) upgrade() {
	for i := range b.Processes {
		p := &b.Processes[i]
		p.OtherClock = p.OtherClock || slices.Contains(b.Clocks, p.Host)
	}
	b.Clocks = nil
	b.DropTwoClocks()
}
