package bench

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/session"
	"ipcbench/internal/test/check"
	"ipcbench/transports/all"
)

// TestNeeds: the reported needs are the ones that decide whether a cell fits. Each transport that keeps files reports
// them, and for each resource the largest cell is named.
func TestNeeds(t *testing.T) {
	spec := func(variant string, workers int) session.Spec {
		return specOf(t, fmt.Sprintf("%s uniform:1MiB/4 workers=%d clients=%d", variant, workers, workers))
	}
	shm, disk := int64(2+2*3)<<20, int64(2+3)<<20 // 3 lanes: 2 models and 2 updates per lane in shared memory; 2 models and 1 update per lane in files
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
		n := Needs([]session.Spec{spec(tt.text, 1), spec(tt.text, 3), spec(tt.text, 2)})
		files := n.Files[tt.dir]
		check.That(t, len(n.Files) <= 1 && files.N >= tt.bytes && files.N <= tt.bytes*5/4 &&
			n.Descriptors.N == tt.descriptors && n.Mappings.N == tt.mappings &&
			(n.Socket > 0) == tt.socket, "%s: got %+v, want %+v", tt.text, n, tt)
		own := int64(32 << 20) // of the processes
		if tt.text != "inproc" {
			own += 3 * 12 << 20
		}
		check.That(t, n.Memory.N >= own+3<<20 && n.Memory.N <= own+60<<20, "%s: got %d bytes of memory, want those of processes, models and updates", tt.text, n.Memory.N)
		check.That(t, n.Memory.N == spec(tt.text, 3).Memory() && n.Memory.Cell == spec(tt.text, 3).String() && n.Workers.N == 3,
			"%s: got %+v, want the memory of 3 workers", tt.text, n)
	}
	check.That(t, Needs([]session.Spec{spec("shm-slab:wait=spin", 2)}).Spins, "there are no workers that spin")

	huge := benchtest.Specs[session.Spec](t, all.Transports(), "shm-tensor uniform:4096GiB/4 workers=250 depth=1000")
	n, unfit := Needs(huge), (*session.Unfit)(nil)
	err := huge[0].Check()
	check.That(t, errors.As(err, &unfit) && n.Memory.N >= 1<<40 && n.Memory.N < math.MaxInt64,
		"got %v and %+v, want a cell that does not fit, by the same numbers", err, n)
}

// TestControls: cells with different work have their own controls, which come before them and differ from the default
// only in that work.
func TestControls(t *testing.T) {
	ts := all.Transports()
	inproc := specOf(t, "inproc cnn").Variant
	const size = " workers=1 clients=1"
	cells := benchtest.Specs[session.Spec](t, ts, "pickle cnn", "http cnn respawn", "pickle cnn nested", "pickle cnn train-ms=1", "shm-slab cnn train-ms=1", "pickle cnn up=lora")
	check.Equal(t, fmt.Sprint(withControls(cells, inproc)), fmt.Sprint([]string{
		"inproc cnn" + size, "pickle cnn" + size, "http cnn" + size + " respawn=on",
		"inproc cnn" + size + " nested=on", "pickle cnn" + size + " nested=on",
		"inproc cnn" + size + " train-ms=1", "pickle cnn" + size + " train-ms=1", "shm-slab cnn" + size + " train-ms=1",
		"inproc cnn up=lora" + size, "pickle cnn up=lora" + size,
	}))
}
