package result

import (
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"ipcbench/internal/machine"
)

// A retired key is one that older builds wrote and nothing needs any more. A file that has
// it stays readable: the value is dropped, whatever it holds, and never written. All
// retired keys are in this file; every other unknown key is refused.
type retired struct{}

func (*retired) UnmarshalJSONFrom(d *jsontext.Decoder) error { return d.SkipValue() }

// IsZero has omitzero leave the key out.
func (retired) IsZero() bool { return true }

type retiredPlan struct {
	Budget retired `json:"budget_ns,omitzero"`
}

// checks are those of a result. Older builds also wrote the figures of each.
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

// retiredCell has what builds wrote that compared the clocks of hosts: blocks in which one
// of them stepped were discarded.
type retiredCell struct {
	Discarded retired `json:"discarded,omitzero"`
}

// retiredBlock has what the same builds wrote of a block.
type retiredBlock struct {
	Clocks otherClocks `json:"clocks,omitzero"`
}

// otherClocks are the hosts of a block whose clock was compared with the server's and was
// not the same. What those builds translated is dropped, see [Result.settle].
type otherClocks []string

func (o *otherClocks) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	var all []struct { // and offset_ns, width_ns, drift_ppm
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

// IsZero has omitzero leave the key out.
func (otherClocks) IsZero() bool { return true }

// settle makes a result that was read as if this build had written it.
func (r *Result) settle() {
	cells := slices.Clip(r.Cells)
	if r.Canary != nil {
		cells = append(cells, r.Canary.Same, r.Canary.Slow)
	}
	for _, c := range cells {
		for i := range c.Blocks {
			c.Blocks[i].settle()
		}
	}
}

func (b *Block) settle() {
	for i := range b.Processes {
		p := &b.Processes[i]
		p.OtherClock = p.OtherClock || slices.Contains(b.Clocks, p.Host)
	}
	b.Clocks = nil
	b.DropTwoClocks()
}
