// Package exchange has what travels between a run and a program that carries out its blocks:
// another build of ipcbench, or a peer. [Ask] starts the program and gives it an [Order] on
// stdin; it writes an [Answer] to stdout. Both carry the types of package result, so that
// nothing is converted.
//
// Everything is decoded strictly. Each cell of an order is decoded by itself: a key that a
// program does not know, such as a new dimension of a cell, refuses that cell by its name,
// and all others can still be measured. A key that is absent has its usual value.
//
// ../testdata has orders and answers as they are.
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

// Version is the version of orders and answers. Programs of two versions cannot be measured
// in one run.
const Version = 2

// Rules is the version of the rules by which a block is measured: how many rounds warm up,
// are timed and are proved. Whoever changes them raises it, so that blocks which were
// measured in different ways are not compared.
const Rules = 3

// Limits of a block by the rules.
const (
	MostTimed = 100  // timed rounds of a block that goes by time
	MostWarm  = 1000 // rounds that warm up, unless the order counts more
)

// An Order asks for one block of its only cell or, without a block, which of its cells the
// program can run.
type Order struct {
	Version int              `json:"version"`
	Works   []Work           `json:"works"`
	Cells   []jsontext.Value `json:"cells"` // each is a Cell
	Block   *Block           `json:"block,omitempty"`
}

// A Work is what is trained, and by whom: cells share it.
type Work struct {
	Model   string           `json:"model" check:"name"` // name, to be shown
	File    string           `json:"file,omitempty"`     // of the first values; without one, they are made from the seed
	Down    []tensor.Spec    `json:"down"`               // tensors of the model
	Up      []tensor.Spec    `json:"up,omitzero"`        // tensors of an update; absent if they are those of the model
	Update  string           `json:"update,omitempty"`   // name of Up, to be shown
	Clients []trainer.Client `json:"clients"`            // in the order in which they are dispatched
}

// A Cell is one combination that is to be measured.
type Cell struct {
	Work       int    `json:"work"` // index of Order.Works
	Variant    string `json:"variant" check:"name"`
	Workers    int    `json:"workers"`
	PerProcess int    `json:"lanes_per_process"`
	Depth      int    `json:"depth"`
	result.Setup
}

// A Block says how a block is measured.
type Block struct {
	Seed       uint64        `json:"seed"`
	Rounds     int           `json:"rounds"`                 // to time; zero goes by Time
	Least      int           `json:"least_rounds,omitempty"` // to time at least, if it goes by Time; zero means 3
	Time       time.Duration `json:"time_ns"`                // of the timed rounds together
	Warmup     int           `json:"warmup"`
	WarmTime   time.Duration `json:"warm_ns"`
	Verify     string        `json:"verify"`            // sample or all
	Spans      int           `json:"spans"`             // that each process has room for
	RoundLimit time.Duration `json:"round_limit_ns"`    // zero means the program's own
	Pin        bool          `json:"pin,omitempty"`     // processes have processors of their own
	Slow       time.Duration `json:"slow_ns,omitempty"` // CPU time that each training burns besides
}

// Add appends a cell to the order.
func (o *Order) Add(c Cell) {
	text, err := json.Marshal(c, v1.DefaultOptionsV1())
	if err != nil {
		panic(err) // a cell holds texts and numbers alone
	}
	o.Cells = append(o.Cells, text)
}

// Cell decodes a cell of the order.
func (o *Order) Cell(i int) (c Cell, err error) {
	if err := json.Unmarshal(o.Cells[i], &c, result.Strict()); err != nil {
		return c, result.Located(err)
	}
	if c.Work < 0 || c.Work >= len(o.Works) {
		return c, fmt.Errorf("work: %d: the order has %d", c.Work, len(o.Works))
	}
	return c, result.Check(c)
}

// Models returns the model and the update that the work describes, nil if updates are like
// the model. The IDs and weights of clients are checked; how many clients and tensors there
// may be is a limit of the cell, see [result.CheckFlags].
func (w Work) Models() (model, up *models.Model, err error) {
	for i, c := range w.Clients {
		switch {
		case c.ID != i:
			return nil, nil, fmt.Errorf("clients[%d].id: %d: this build numbers clients from 0", i, c.ID)
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
			return nil, nil, fmt.Errorf("file: %s: its tensors are not those of the order", w.File)
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

// ParseOrder reads an order.
func ParseOrder(text []byte) (*Order, error) {
	o := new(Order)
	if err := cmp.Or(decode(text, o), result.Check(o)); err != nil {
		return nil, fmt.Errorf("order: %w", err)
	}
	return o, nil
}

// errEarly ends a block because stdin has ended.
var errEarly = errors.New("asked to end early")

// decode reads an order or an answer, whose values must then be checked. Nothing is said of
// the keys of another version.
func decode(text []byte, v any) error {
	err := json.Unmarshal(text, v, result.Strict())
	var head struct {
		Version int `json:"version"`
	}
	if json.Unmarshal(text, &head) == nil && head.Version != Version {
		return fmt.Errorf("of version %d, and this build has version %d: measure each apart, or make a peer follow docs/peer.md", head.Version, Version)
	}
	switch {
	case len(text) == 0:
		return errors.New("there is none")
	case err != nil:
		return result.Located(err)
	}
	return nil
}
