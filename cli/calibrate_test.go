package cli

import (
	"io"
	"slices"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"ipcbench/bench"
	"ipcbench/internal/skip"
	"ipcbench/machine"
	"ipcbench/transports"
	"ipcbench/transports/all"
)

// TestDesign: what is calibrated lies round the model, is never the model itself, and
// fits into the time, unless the least that tells enough does not.
func TestDesign(t *testing.T) {
	a := newApp(io.Discard, io.Discard, all.Transports())
	control, err := transports.NewVariant(a.host.Transports[0], nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		model, up, workers, clients string
		budget                      time.Duration
		fits                        bool
	}{
		{"cnn", "model", "2", "4", time.Minute, true},
		{"cnn", "model", "2", "4", time.Second, false},
		{"resnet50", "model", "2", "4", time.Minute, true},
		{"resnet50", "model", "2", "4", time.Hour, true},
		{"resnet50", "model", "8", "64", time.Minute, false},
		{"resnet18", "lora", "2", "4", time.Minute, true},
		{"gpt2", "lora", "8", "64", time.Minute, false},
		{"uniform:4B/1", "model", "1", "1", time.Minute, true},
		{"uniform:1MiB/1", "model", "8", "4", time.Minute, true},
		{"like:cnn:1MiB/30", "uniform:64KiB/1", "1", "1", time.Minute, true},
	} {
		t.Run(test.model+" "+test.up+" "+test.clients+" "+test.budget.String(), func(t *testing.T) {
			if test.model != "resnet18" {
				skip.Long(t)
			}
			t.Parallel()
			f := adviseFlags{calibrate: test.budget, cellFlags: defaults(), settings: &settings{flags: pflag.NewFlagSet("", pflag.ContinueOnError)}}
			f.models, f.ups, f.workers, f.clients = []string{test.model}, []string{test.up}, []string{test.workers}, []string{test.clients}
			cells, err := f.asked(a)
			if err != nil {
				t.Fatal(err)
			}
			m := measuring{app: a, adviseFlags: &f, control: control}
			plan, err := bench.DefaultPlan(bench.Quick)
			if err != nil {
				t.Fatal(err)
			}
			plan.Blocks, plan.Time = 3, 3*calibratingTime
			d, err := m.design(t.Context(), plan, cells)
			if err != nil {
				t.Fatal(err)
			}
			of := cells[0]
			t.Logf("%d shapes, %d cells, %v", d.shapes, len(d.cells), d.guess)
			if d.shapes < 6 || test.fits && d.guess > test.budget*6/5 { // whatever machine guesses
				t.Errorf("%d shapes, in %v", d.shapes, d.guess)
			}
			own, beyond, clients := 0, false, map[int]bool{}
			var bytes, tensors []float64
			for _, c := range d.cells {
				if c.Model == of.Model {
					own++
					if c.Variant.String() != control.String() || c.Clients != of.Clients || c.Up != of.Up {
						t.Errorf("measures %v itself", c)
					}
					continue
				}
				if c.Workers != of.Workers || c.Clients > of.Clients || c.Clients < min(of.Workers, of.Clients) {
					t.Errorf("%v: too many or too few clients", c)
				}
				clients[c.Clients] = true
				beyond = beyond || c.Cell().Resident() > machine.Read().LLC
				bytes = append(bytes, float64(c.Model.Layout.Payload()))
				tensors = append(tensors, float64(c.Model.Layout.Len())/float64(of.Model.Layout.Len()))
			}
			if slices.Max(tensors) > 4 || slices.Max(tensors) < 1.5 || of.Model.Layout.Len() > 1 && slices.Min(tensors) > .51 || slices.Max(bytes) < 4*slices.Min(bytes) {
				t.Errorf("%v of tensors, %v bytes", slices.Compact(tensors), slices.Compact(bytes))
			}
			if many := len(clients) > 1; many == clients[of.Clients] && !(many && of.Clients == 4) || own > 1 || test.fits && own == 0 || of.Cell().Resident() > machine.Read().LLC && !beyond {
				t.Errorf("clients: %v; controls of the model itself: %d; beyond the cache: %v", clients, own, beyond)
			}
		})
	}
}

// defaults are those of flags that say what to measure.
func defaults() (f cellFlags) {
	f.add(pflag.NewFlagSet("", pflag.ContinueOnError))
	return f
}
