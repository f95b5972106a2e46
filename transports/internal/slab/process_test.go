package slab

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"ipcbench/internal/reexec"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
)

func TestMain(m *testing.M) {
	reexec.Main(reexec.Roles{"race": race})
	os.Exit(m.Run())
}

const (
	races     = 200
	meetings  = 64 // bytes of the memory in which two racers meet
	succeeded = "succeeded"
)

// race is the role of one of two processes that create pools of the same name at once. It
// returns the outcomes, in order. The winner of a race closes its pool before the next one.
func race(question []byte) (any, error) {
	var dir string
	if err := json.Unmarshal(question, &dir); err != nil {
		return nil, err
	}
	mem, err := OpenFile(filepath.Join(dir, "meetings"), meetings, ReadWrite, Touched)
	if err != nil {
		return nil, err
	}
	met, total := uint64(0), stampAt(mem.Bytes(), 0)
	meet := func() {
		total.Add(1)
		for met += 2; total.Load() < met; {
			_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) // a sleeper would be late at the start
		}
	}
	outcomes := make([]string, races)
	for n := range outcomes {
		meet()
		outcomes[n] = create(filepath.Join(dir, "pool"), meet)
	}
	return outcomes, nil
}

// create creates a pool, calls meet when it has tried, and returns the outcome. A pool that
// it has created must still be there under its name.
func create(path string, meet func()) string {
	p, nonce, err := CreatePool(path, 64, "")
	meet()
	if err == nil {
		var r *Reader
		if r, err = OpenReader(path, nonce, ""); err == nil {
			err = r.Close()
		}
		err = errors.Join(err, p.Close())
	}
	switch {
	case err == nil:
		return succeeded
	case p == nil && errors.Is(err, os.ErrExist):
		return os.ErrExist.Error()
	}
	return err.Error()
}

// TestCreateIsExclusive: A24: if two processes use one name at once, one of them succeeds and
// keeps it. The name is free again when that one closes its pool.
func TestCreateIsExclusive(t *testing.T) {
	dir := t.TempDir()
	mem := check.Value(CreateFile(filepath.Join(dir, "meetings"), meetings, Touched))(t)
	var racers [2]*reexec.Called
	for i := range racers {
		racers[i] = check.Value(reexec.Call(waiting.Context(t), reexec.Command{Role: "race", Question: dir}))(t)
	}
	var outcomes [2][]string
	for i, r := range racers {
		check.Must(t, r.Answer(&outcomes[i]))
	}
	for n := range races {
		both := []string{outcomes[0][n], outcomes[1][n]}
		slices.Sort(both)
		check.Equal(t, both, []string{os.ErrExist.Error(), succeeded}, "race", n)
	}
	check.Must(t, mem.Close())
}
