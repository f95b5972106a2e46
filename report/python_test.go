package report

import (
	"slices"
	"strings"
	"testing"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/result"
)

// TestPythonView: what a terminal of 80 columns shows of workers in Python and of peers,
// and the same for scripts and pull requests.
func TestPythonView(t *testing.T) {
	r := benchtest.Python()
	if err := r.Validate(); err != nil {
		t.Fatal(err)
	}
	shows(t, r, "python.text", [][]string{nil, {"gain"}, {"verdict", "findings", "cells", "workers", "environment"}}, map[string][]string{
		"csv": {
			"metrics shm-slab histology python import s 0.11", "ranking shm-slab histology python rank 1 2", "gain shm-slab BlazeFL", "gain shm-slab transfer_ratio 1 257.", "gain rtt_ratio 1 4.4",
			"metrics py-grpc peer python/peers/py_grpc.py", "metrics mine cnn unproved its", "metrics mine cnn round s",
		},
		"json": {
			`"shm-slab (python)"`, `"language":"python"`, `"numpy=1.24.2"`, `"peer":"python/peers/py_grpc.py"`, `"unproved":"its answer has no hash of round 3"`,
			`"project":"AReaL"`, `"now":"py-http-json"`, `"instead":"http-shm"`,
		},
		"benchfmt": {"/transport=shm-slab/model=histology/workers=1/clients=1/language=python ", "/transport=mine/model=cnn/workers=1/clients=1/unproved=yes "},
		"md": {
			"\n| *peers* ", "\n| mine (unproved) ", "\nmine (unproved): not proved: its answer has no hash of round 3\n", "\n**BlazeFL: shm-slab in the place of py-torch-queue is 257 ",
			"**shm-slab (python)**",
		},
		"html": {`<tbody class="heading">`, "mine (unproved)"},
	})
	for _, never := range []string{"ranking mine", "metrics mine overhead", "metrics mine bandwidth"} {
		if hasLine(format(t, "csv", r), never) {
			t.Errorf("what is not proved has a %s", never)
		}
	}
	if text := shown(t, r, "verdict"); strings.Contains(text, "mine") {
		t.Errorf("a verdict names what is not proved: %s", text)
	}
}

// TestPeerIsBest: a peer that is proved and faster than ours says so, where it stands.
func TestPeerIsBest(t *testing.T) {
	r := benchtest.Python()
	for i := range r.Cells {
		r.Cells[i].Unproved = ""
	}
	text := shown(t, r)
	for _, want := range []string{"mine is best, 100 µs a transfer. The runner-up, shm-slab, costs ", "\nmine 0.100 ± 0.002 1.00 ▏ — 0.609\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
}

// TestTrainView: a user's own training is named with the work, and why transfer ranks.
func TestTrainView(t *testing.T) {
	r := benchtest.Python()
	r.Cells = slices.DeleteFunc(r.Cells, func(c result.Cell) bool { return c.Language == "" })
	for i := range r.Cells {
		r.Cells[i].Train = "mine:train"
	}
	text := shown(t, r)
	for _, want := range []string{
		"histology, 66.6 MB in 20 tensors, 1 worker, 1 client, training by mine:train\n",
		"Ranked by transfer (a client's round trip without its training): a training of your own has no control.",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
	if strings.Contains(text, "warning") {
		t.Errorf("a warning of what cannot be otherwise:\n%s", text)
	}
}

// TestGainSentences: what is said of a gain is as sure as the blocks are.
func TestGainSentences(t *testing.T) {
	for name, tt := range map[string]struct {
		edit func(c *result.Cell)
		want string
	}{
		"faster": {func(*result.Cell) {}, "OpenFL, Flower: grpc-stream in the place of py-grpc is 5.71 (5.60 to 5.83) times as fast: a client's transfer takes 70.0 ms rather than 400 ms."},
		"the same": {func(c *result.Cell) {
			if c.Variant == "py-grpc" {
				c.Blocks = slices.Clone(blocksOf(c, "grpc-stream"))
			}
		}, "OpenFL, Flower: grpc-stream in the place of py-grpc is not shown to be faster or slower, 1.00 (0.980 to 1.02) times as fast: a client's transfer takes 70.0 ms rather than 70.0 ms."},
		"two blocks": {func(c *result.Cell) { c.Blocks = c.Blocks[:2] }, "OpenFL, Flower: grpc-stream in the place of py-grpc seems to be 5.71 (5.66 to 5.77) times as fast, but 2 blocks cannot prove it (run with --blocks 6): a client's transfer takes 69.0 ms rather than 394 ms."},
	} {
		r := benchtest.Python()
		for i := range r.Cells {
			tt.edit(&r.Cells[i])
		}
		t.Run(name, func(t *testing.T) { wantLines(t, shown(t, r, "gain"), tt.want) })
	}
	if text := shown(t, benchtest.Synthetic(6, 10), "gain"); !strings.Contains(text, "gain: this result has nothing to show.") {
		t.Errorf("without peers: %s", text)
	}
}

// blocksOf returns the blocks of a transport with workers in Python, of the same model.
func blocksOf(of *result.Cell, transport string) []result.Block {
	for _, c := range benchtest.Python().Cells {
		if c.Language != "" && c.Transport == transport && c.Model == of.Model {
			return c.Blocks
		}
	}
	return nil
}
