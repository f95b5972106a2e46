package bench

import (
	"errors"
	"math"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/tensor/models"
	"ipcbench/transports"
	"ipcbench/transports/all"
)

// TestNeeds: what a cell needs is what decides whether it fits: each transport that
// keeps files says so, and of each the largest cell is named.
func TestNeeds(t *testing.T) {
	model, err := models.Parse("uniform:1MiB/4")
	check.Must(t, err)
	spec := func(text string, workers int) Spec {
		v, err := transports.Parse(text, all.Transports())
		check.Must(t, err)
		return Spec{Variant: v, Model: model, Workers: workers, Clients: workers, PerProcess: 1, Depth: 2}
	}
	shm, disk := int64(2+2*3)<<20, int64(2+3)<<20 // two models, two updates of each of 3 lanes; two models and an update of each
	for _, tt := range []struct {
		text        string
		dir         string
		bytes       int64
		descriptors int64
		mappings    int64
		socket      bool
	}{
		{"inproc", "", 0, 0, 0, false},
		{"pickle", "", 0, 45, 0, true},
		{"grpc-stream", "", 0, 45, 0, true},
		{"http", "", 0, 45, 0, true},
		{"http-shm", "/dev/shm", shm, 45, 0, false},
		{"http-shm:shm=off", "", 0, 45, 0, true},
		{"shm-slab", "", 0, 45, 0, false},
		{"shm-tensor", "/dev/shm", shm, 124, 1032, false},
		{"shm-tensor:pass=fd", "/dev/shm", 2 << 20, 136, 1032, false},
		{"storage:dir=/var", "/var", disk, 45, 0, false},
	} {
		n := Needs([]Spec{spec(tt.text, 1), spec(tt.text, 3), spec(tt.text, 2)})
		files := n.Files[tt.dir]
		if len(n.Files) > 1 || tt.dir != "" && (files.N < tt.bytes || files.N > tt.bytes*5/4) || n.Descriptors.N != tt.descriptors || n.Mappings.N != tt.mappings || (n.Socket > 0) != tt.socket {
			t.Errorf("%s: got %+v, want %+v", tt.text, n, tt)
		}
		check.That(t, n.Memory.N == spec(tt.text, 3).memory() && n.Memory.Cell == spec(tt.text, 3).String() && n.Workers.N == 3,
			"%s: got %+v, want the memory of 3 workers", tt.text, n)
	}
	if n := Needs([]Spec{spec("shm-slab:wait=spin", 2)}); !n.Spins {
		t.Errorf("got %+v, want workers that spin", n)
	}

	huge, err := models.Parse("uniform:4096GiB/4")
	check.Must(t, err)
	s := spec("shm-tensor", 1)
	s.Model, s.Workers, s.Depth = huge, 250, 1000
	n, unfit := Needs([]Spec{s}), (*Unfit)(nil)
	if err := s.Check(); !errors.As(err, &unfit) || n.Memory.N < 1<<40 || n.Memory.N == math.MaxInt64 {
		t.Errorf("got %v and %+v, want a cell that does not fit, by the same numbers", err, n)
	}
}
