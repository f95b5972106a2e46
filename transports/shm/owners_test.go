package shm

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ipcbench/internal/test/check"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
	"ipcbench/transports/driver/drivertest"
	"ipcbench/transports/internal/slab"
)

// playCreator makes a slab of the given name for every line that it reads, says
// whether it could, and gives it up at the next line.
func playCreator(_ context.Context, given *json.Decoder) error {
	var p part
	if _, err := p.read(given); err != nil {
		return err
	}
	var line string
	for given.Decode(&line) == nil {
		mem, nonce, err := slab.CreateNamed(p.Path, 4096)
		switch {
		case err == nil:
			fmt.Println("mine", hex.EncodeToString(nonce[:]))
		case errors.Is(err, os.ErrExist):
			fmt.Println("taken")
		default:
			return err
		}
		if given.Decode(&line) != nil {
			break
		}
		if mem != nil {
			if err := mem.Close(); err != nil {
				return err
			}
		}
		fmt.Println("done")
	}
	return nil
}

// playIntruder tries to write to the memory behind a descriptor of another process.
func playIntruder(_ context.Context, given *json.Decoder) error {
	var p part
	if _, err := p.read(given); err != nil {
		return err
	}
	f, err := os.OpenFile(p.Path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte("x"), 0)
	fmt.Println("write:", err)
	fmt.Println("truncate:", f.Truncate(0))
	_, err = slab.Open(f, int(info.Size()), slab.ReadWrite, slab.Untouched)
	fmt.Println("map:", err)
	return nil
}

// A24: two processes that make the same name at once: one has it, the other is
// told so, and neither takes it from the other.
func TestTwoCreators(t *testing.T) {
	dir := check.Value(os.MkdirTemp("/dev/shm", "shm-test-"))(t)
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "slab")
	both := [2]*drivertest.Child{spawn(t, "create", "", path), spawn(t, "create", "", path)}
	ask := func(line string) (answers [2]string) {
		t.Helper()
		for _, c := range both {
			c.Say(t, line)
		}
		for i, c := range both {
			answers[i] = c.Line(t)
		}
		return answers
	}
	wins := [2]int{}
	for range 200 {
		got := ask("make")
		winner := 0
		if got[0] == "taken" {
			winner = 1
		}
		hash, mine := strings.CutPrefix(got[winner], "mine ")
		check.Need(t, mine && got[1-winner] == "taken", "got %q, want one that has the name and one that has not", got)
		wins[winner]++
		var nonce slab.Nonce
		check.Must(t, check.Err(hex.Decode(nonce[:], []byte(hash))))
		r, err := slab.OpenReader(path, nonce) // it is the winner's, and whole
		check.Must(t, err)
		check.Must(t, r.Close())
		if got := ask("give up"); got != [2]string{"done", "done"} {
			t.Fatalf("got %q", got)
		}
		_, err = os.Stat(path)
		check.Need(t, errors.Is(err, os.ErrNotExist), "got %v, want no name", err)
	}
	t.Logf("the first process won %d times, the second %d times", wins[0], wins[1])
}

// A25: another process that gets hold of a slab's descriptor can neither write
// to it, nor map it for writing, nor change its size; nor does a second worker
// process get the lane. A segment with a name has no such seals: its mode and its
// private directory keep other users away, and nobody else.
func TestTwoWriters(t *testing.T) {
	v, o := parse(t, "shm-slab")
	s, _ := listening(t, v, o)
	w := dialled(t, s)
	check.Must(t, exchange(s, w, driver.Job{}))
	st := s.Driver.(*slabServer)
	for _, m := range []*slab.Memory{st.places.Memory(), st.updates[0].Memory(), s.base().lanes[0].given[0], s.base().lanes[0].given[1]} {
		c := spawn(t, "intrude", "", fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), m.File().Fd()))
		for _, act := range []string{"write", "truncate", "map"} {
			line := c.Line(t)
			check.That(t, strings.HasPrefix(line, act+": ") && strings.Contains(line, unix.EPERM.Error()),
				"%s: got %q, want %s: %v", m.File().Name(), line, act, unix.EPERM)
		}
		check.Must(t, c.Cmd.Wait())
	}
	c := s.play("echo")
	if err := c.Cmd.Wait(); err == nil || !strings.Contains(fmt.Sprint(c.Err), "has or had a worker") {
		t.Errorf("a second worker process ended with %v: %s", err, c.Err)
	}
	check.Must(t, exchange(s, w, driver.Job{Client: 1})) // undisturbed

	v, o = parse(t, "shm-tensor")
	s, _ = listening(t, v, o)
	dir := s.Driver.(*namedServer).names.dir
	for path, want := range map[string]os.FileMode{dir: 0o700 | os.ModeDir, filepath.Join(dir, list(t, s)[0]): 0o600} {
		info := check.Value(os.Stat(path))(t)
		check.Equal(t, info.Mode(), want, path, "has mode")
	}
}

// memoryOf returns the inodes and sizes of the files whose names contain one of
// the words, as far as this process has them mapped.
func memoryOf(t *testing.T, words ...string) map[string]int64 {
	t.Helper()
	maps := check.Value(os.ReadFile("/proc/self/maps"))(t)
	found := map[string]int64{}
	for line := range strings.Lines(string(maps)) {
		f := strings.Fields(line)
		for _, word := range words {
			if len(f) > 5 && strings.Contains(f[5], word) {
				var start, end int64
				check.Must(t, check.Err(fmt.Sscanf(f[0], "%x-%x", &start, &end)))
				found[f[4]] = end - start
			}
		}
	}
	return found
}

// B1: with pass=fd each returned tensor is a new segment, in every round: as many
// as there are tensors, and none that was there before.
func TestNewSegmentsEachRound(t *testing.T) {
	v, o := parse(t, "shm-tensor:pass=fd")
	s, _ := listening(t, v, o)
	w := dialled(t, s)
	seen := map[string]bool{}
	var before *tensor.Package // stays out, so that no segment of it is made again
	for round := range 5 {
		p := check.Value(exchanged(s, w, driver.Job{Round: round}))(t)
		fresh := 0
		for inode := range memoryOf(t, "memfd:ipcbench-update") {
			if !seen[inode] {
				fresh++
			}
			seen[inode] = true
		}
		check.That(t, fresh == o.Up.Len(), "round %d: %d new segments, want one for each of %d tensors", round, fresh, o.Up.Len())
		if before != nil {
			before.Release()
		}
		before = p
	}
	before.Release()
	check.Equal(t, len(memoryOf(t, "memfd:ipcbench-update")), 0, "segments are left")
}

// B4: what the model takes on its way down does not depend on how many workers
// read it: all of them have the same memory mapped.
func TestDownlinkIsShared(t *testing.T) {
	for _, name := range []string{"shm-slab", "shm-tensor", "shm-tensor:reuse=on", "shm-tensor:pass=fd"} {
		var want int64
		for _, workers := range []int{1, 2, 7} {
			v, o := parse(t, name)
			o.Lanes = workers
			s, m := listening(t, v, o)
			var all []*drivertest.Worker
			for lane := range workers {
				w := check.Value(s.dial(lane))(t)
				check.Must(t, s.Server.Dispatch(t.Context(), lane, driver.Job{Client: lane}))
				_, model, err := w.Receive(t.Context())
				check.Must(t, err)
				check.That(t, model.Hash() == m.Hash() && &model.View(0)[0] != &m.View(0)[0],
					"%s: lane %d has not mapped the model", name, lane)
				all = append(all, w)
			}
			total := int64(0)
			for _, size := range memoryOf(t, "ipcbench-models", "/model-") {
				total += size
			}
			if want == 0 {
				want = total
			}
			check.That(t, total >= int64(o.Down.Payload()) && total == want,
				"%s: %d workers: models take %d bytes, with one worker %d", name, workers, total, want)
			for lane, w := range all {
				u := check.Value(w.Reserve())(t)
				check.Must(t, w.Submit(t.Context(), u))
				p := check.Value(s.Server.Collect(t.Context(), lane))(t)
				p.Release()
				check.Must(t, w.Close())
			}
			check.Must(t, s.Server.Shutdown(t.Context()))
		}
	}
}
