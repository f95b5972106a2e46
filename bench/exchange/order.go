// Package exchange defines the messages between a run and another build, or a peer.
// That program measures blocks for the run. [Ask] starts the program and writes an [Order] to
// its stdin; it writes an [Answer] to stdout. Both contain types of package result.
//
// Decoding is strict, but separate for each cell of an order: a program refuses only cells with
// an unknown key, such as a new dimension. An absent key has its usual value.
//
// ../testdata contains examples.
package exchange

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	v1 "github.com/go-json-experiment/json/v1"

	"ipcbench/bench/result"
	"ipcbench/tensor"
	"ipcbench/tensor/models"
	"ipcbench/trainer"
)

// Version is the version of orders and answers. Programs with different versions cannot take
// part in one run.
const Version = 2

// Rules is the version of the rules for measuring a block: how many rounds warm up, are timed
// and are proved. A change of the rules must increase it, because blocks of different rules must
// not be compared.
const Rules = 4

// Limits of a block.
const (
	MostTimed = 100  // maximum number of timed rounds, if the order gives a time
	MostWarm  = 1000 // maximum number of warm-up rounds, unless the order gives more
)

// An Order asks a program to measure one block of the order's only cell. If Block is nil, it
// asks which of the order's cells the program can run.
type Order struct {
	Version int              `json:"version"`
	Works   []Work           `json:"works"`
	Cells   []jsontext.Value `json:"cells"` // each is an encoded Cell, see Order.Cell
	Block   *Block           `json:"block,omitempty"`
}

// A Work describes the model, the update and the clients of one or more cells.
type Work struct {
	Model   string           `json:"model" check:"name"` // name for display
	File    string           `json:"file,omitempty"`     // file with the initial values; empty means values from the seed
	Down    []tensor.Spec    `json:"down"`               // tensors of the model
	Up      []tensor.Spec    `json:"up,omitzero"`        // tensors of an update; nil means the model's
	Update  string           `json:"update,omitempty"`   // name of the update for display
	Clients []trainer.Client `json:"clients"`            // in dispatch order; IDs count from 0
}

// A Cell is one combination to measure, in an order.
type Cell struct {
	Work       int    `json:"work"` // index into Order.Works
	Variant    string `json:"variant" check:"name"`
	Workers    int    `json:"workers"`
	PerProcess int    `json:"lanes_per_process"`
	Depth      int    `json:"depth"`
	result.Setup
}

// A Block holds the settings for measuring one block.
type Block struct {
	Seed       uint64        `json:"seed"`
	Rounds     int           `json:"rounds"`                 // timed rounds; zero means as many as Time allows
	Least      int           `json:"least_rounds,omitempty"` // minimum of timed rounds if Rounds is zero; zero means 3
	Time       time.Duration `json:"time_ns"`                // total duration of the timed rounds
	Warmup     int           `json:"warmup"`
	WarmTime   time.Duration `json:"warm_ns"`
	Verify     string        `json:"verify"`            // last, sample or all
	Spans      int           `json:"spans"`             // room for spans in each process
	RoundLimit time.Duration `json:"round_limit_ns"`    // zero means the program's default
	Pin        bool          `json:"pin,omitempty"`     // pin each process to separate processors
	Slow       time.Duration `json:"slow_ns,omitempty"` // additional CPU time per training
}

// Add appends a cell to the order.
func (o *Order) Add(c Cell) {
	text, err := json.Marshal(c, v1.DefaultOptionsV1())
	if err != nil {
		panic(err) // a cell holds only texts and numbers
	}
	o.Cells = append(o.Cells, text)
}

// Cell decodes and checks cell i. Unknown keys and invalid values are errors.
func (o *Order) Cell(i int) (c Cell, err error) {
	if err := json.Unmarshal(o.Cells[i], &c, result.Strict()); err != nil {
		return c, result.DescribeJSONError(err)
	}
	if c.Work < 0 || c.Work >= len(o.Works) {
		return c, fmt.Errorf("work: %d: must be an index of the order's %d works", c.Work, len(o.Works))
	}
	return c, result.Check(c)
}

// Models returns the model and the update of the work; up is nil if updates have the model's
// layout. It checks the IDs and weights of clients, and that File has the tensors Down.
// [result.CheckFlags] limits the numbers of clients and tensors.
func (w Work) Models() (model, up *models.Model, err error) {
	for i, c := range w.Clients {
		switch {
		case c.ID != i:
			return nil, nil, fmt.Errorf("clients[%d].id: %d: must be %[1]d", i, c.ID)
		case !(c.Weight > 0 && c.Weight < 1<<50):
			return nil, nil, fmt.Errorf("clients[%d].weight: %v: must be a positive number", i, c.Weight)
		}
	}
	l, err := layoutOf("down", w.Down)
	if err != nil {
		return nil, nil, err
	}
	model = &models.Model{Name: w.Model, Layout: l}
	if w.File != "" {
		if model, err = models.Parse(w.File); err != nil {
			return nil, nil, err
		}
		if model.File() == "" || model.Layout.Digest() != l.Digest() {
			return nil, nil, fmt.Errorf("file: %s: its tensors differ from the order's", w.File)
		}
		model.Name = w.Model
	}
	if w.Up == nil {
		return model, nil, nil
	}
	if l, err = layoutOf("up", w.Up); err != nil || l.Digest() == model.Layout.Digest() {
		return model, nil, err
	}
	return model, &models.Model{Name: w.Update, Layout: l}, nil
}

func layoutOf(place string, specs []tensor.Spec) (*tensor.Layout, error) {
	l, err := tensor.NewLayout(specs)
	return l, result.At(place, err)
}

// ParseOrder decodes and checks an order, except its cells.
func ParseOrder(text []byte) (*Order, error) {
	o := new(Order)
	if err := cmp.Or(decode(text, o), result.Check(o)); err != nil {
		return nil, fmt.Errorf("order: %w", err)
	}
	return o, nil
}

// decode decodes an order or an answer, without checking values. For another version, it
// reports only the version.
func decode(text []byte, v any) error {
	err := json.Unmarshal(text, v, result.Strict())
	var head struct {
		Version int `json:"version"`
	}
	if json.Unmarshal(text, &head) == nil && head.Version != Version {
		return fmt.Errorf("version: %d: must be %d: run the builds separately, or change the peer to follow "+
			"docs/reference/peer.md", head.Version, Version)
	}
	switch {
	case len(text) == 0:
		return errors.New("empty")
	case err != nil:
		return result.DescribeJSONError(err)
	}
	return nil
}
