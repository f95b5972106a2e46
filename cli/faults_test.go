package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ipcbench/bench/result"
	"ipcbench/internal/scratch"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/internal/test/waiting"
	"ipcbench/tensor/models"
	"ipcbench/transports/all"
	"ipcbench/transports/driver/drivertest"
)

// A fault is what happens to a run, and what the run must do then.
type fault struct {
	name  string
	tries int // of make soak
	do    func(t *testing.T, r *faultRun)
	code  int    // of the run; -1 is by a signal
	says  string // pattern of its stderr

	late  bool     // a worker may have done its work before it was hit: then the run goes on, and the next one is hit
	tiny  tinyDir  // where there is little room
	whole bool     // the run is one long block, and not hundreds of short ones
	on    []string // variants; nil is every transport that has worker processes
}

// tinyDir is a directory of a run that is a file system of its own.
type tinyDir int

const (
	noTiny  tinyDir = iota
	tinyTmp         // TMPDIR
	tinyOut         // where the result goes
	tinyShm         // /dev/shm
)

// perRound is how many clients a round has.
const perRound = 4

// room is what a small file system holds, of which a run needs less than half.
const room = 32 << 20

// For how long nothing may move in a run, and how long its server is stopped.
const (
	roundLimit = 3 * time.Second
	stopped    = roundLimit + time.Second
)

// truncated are the segments of a variant that somebody truncates while a run has them
// mapped: those that the server writes, and those that workers write.
var truncated = map[string][]string{"http-shm": {"models", "updates-*"}, "shm-tensor:reuse=on": {"model-*", "update-*"}}

// faults are what is tried. Nothing may take as long as an interrupted run is
// allowed to, and most takes a fraction of a second.
func faults() []fault {
	hit := func(signal syscall.Signal) func(*testing.T, *faultRun) {
		return func(t *testing.T, r *faultRun) { r.hit(t, signal) }
	}
	server := func(signals ...syscall.Signal) func(*testing.T, *faultRun) {
		return func(t *testing.T, r *faultRun) {
			for i, s := range signals {
				if i > 0 {
					<-time.After(r.try.pause)
				}
				r.signal(t, s)
			}
		}
	}
	fill := func(dir func(*faultRun) string) func(*testing.T, *faultRun) {
		return func(t *testing.T, r *faultRun) { r.fill(t, dir(r), func() { r.began = time.Now() }) }
	}
	const full = `no space left on device`
	return []fault{
		{name: "kill worker", tries: 500, do: hit(syscall.SIGKILL), code: 1, says: `process [01] exited: signal: killed`, late: true},
		{name: "kill server", tries: 500, do: server(syscall.SIGKILL), code: -1},
		{name: "terminate worker", tries: 36, do: hit(syscall.SIGTERM), code: 1, says: `process [01] exited: signal: terminated`, late: true},
		{name: "terminate server", tries: 36, do: server(syscall.SIGTERM), code: 143, says: `interrupted by SIGTERM`},
		{name: "interrupt server", tries: 36, do: server(syscall.SIGINT), code: 130, says: `interrupted by SIGINT`},
		{name: "stop worker", tries: 36, do: hit(syscall.SIGSTOP), code: 1, says: `process [01] .* is stopped \(T\)`, late: true},
		{name: "stop worker, INT", tries: 18, do: func(t *testing.T, r *faultRun) {
			r.hit(t, syscall.SIGSTOP)
			r.signal(t, syscall.SIGINT)
		}, code: 130, says: `interrupted by SIGINT`},
		{name: "stop, go on, INT", tries: 18, do: func(t *testing.T, r *faultRun) {
			pid := r.hit(t, syscall.SIGSTOP)
			<-time.After(r.try.pause) // less than the round limit
			_ = syscall.Kill(pid, syscall.SIGCONT)
			<-time.After(r.try.pause)
			if files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", r.cmd.Process.Pid)); err != nil || len(files) > 100 {
				t.Errorf("the server has %d open files (%v)", len(files), err)
			}
			r.signal(t, syscall.SIGINT)
		}, code: 130, says: `interrupted by SIGINT`},
		{name: "stop server, kill", tries: 18, do: server(syscall.SIGSTOP, syscall.SIGKILL), code: -1},
		{name: "stop server, INT", tries: 18, do: func(t *testing.T, r *faultRun) { // its workers wait, and it has not looked at them
			r.signal(t, syscall.SIGSTOP)
			<-time.After(stopped)
			r.signal(t, syscall.SIGCONT)
			<-time.After(r.try.pause)
			r.signal(t, syscall.SIGINT)
		}, code: 130, says: `interrupted by SIGINT`},
		{name: "full TMPDIR", tries: 18, do: fill(func(r *faultRun) string { return r.dir }), code: 1, says: full, tiny: tinyTmp},
		{name: "full disk, result", tries: 18, do: func(t *testing.T, r *faultRun) {
			r.result(t)
			r.fill(t, filepath.Dir(r.out), func() { r.signal(t, syscall.SIGINT) })
		}, code: 130, says: `interrupted by SIGINT(.|\n)*` + full + `(.|\n)*is unharmed`, tiny: tinyOut},
		{name: "full /dev/shm", tries: 18, do: fill(func(r *faultRun) string { return r.shm }), code: 1, says: full + `|in /dev/shm, [0-9]+ are available`, tiny: tinyShm,
			on: []string{"shm-tensor", "shm-tensor:reuse=on", "http-shm"}},
		{name: "full memory", tries: 18, do: func(t *testing.T, r *faultRun) { r.starve(t) }, code: 1, says: `process [01] exited: signal: killed`, late: true},
		{name: "truncated segment", tries: 24, do: func(t *testing.T, r *faultRun) { r.truncate(t) }, code: 1,
			says: `memory fault in .*, at byte (.|\n)*truncated to 0 bytes`, whole: true, on: []string{"http-shm", "shm-tensor:reuse=on"}},
	}
}

// TestFaults: B25, A23, A28: workers and servers that are killed, stopped and
// interrupted at any time, disks and shared memory that are full, and segments that
// somebody truncates, with every transport: the run ends soon, with the right code, and
// names the cause; nothing is left, or what a killed server has left is found and
// removed; what was measured can be read, and its data is right. At the end there is a
// table, of 1,000 kills and more with make soak. IPCBENCH_TEST_SEED repeats a run of this
// test.
func TestFaults(t *testing.T) {
	skip.Long(t)
	long := os.Getenv("IPCBENCH_TEST_SOAK") != ""
	seed := uint64(1)
	if long {
		seed = uint64(time.Now().UnixNano())
	}
	if text := os.Getenv("IPCBENCH_TEST_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		check.Need(t, err == nil, "%v", err)
	}
	t.Logf("IPCBENCH_TEST_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	tries := tries(t, random, long)
	scores := &scores{seed: seed, began: time.Now()}
	t.Cleanup(func() { scores.show(t) }) // after all of them
	for n, c := range tries {
		t.Run(fmt.Sprintf("%s/%s/%d", c.name, c.variant, n), func(t *testing.T) {
			t.Parallel()
			var o outcome
			defer func() { // also of a try that ends half-way
				if t.Skipped() {
					scores.refuse(c)
				} else {
					scores.add(c, o, t.Failed())
				}
			}()
			r := startFaultRun(t, c)
			r.ready(t)
			select { // some are hit as they start, and some in the middle
			case <-time.After(c.wait):
			case <-r.done:
				t.Fatalf("ended early:\n%s", r.text())
			}
			_, err := os.Stat(r.out)
			r.saved = err == nil
			c.do(t, r)
			r.check(t, &o)
		})
	}
}

// A try is a fault that one run has.
type try struct {
	fault
	variant     string
	wait, pause time.Duration
	choice      int  // of several that the fault has
	inside      bool // there are no worker processes
}

// tries returns what to try, in random order: with long all that make soak does, else
// every fault, and the first one twice.
func tries(t *testing.T, random *rand.Rand, long bool) (list []try) {
	var inside, others []string
	for _, transport := range all.Transports() {
		if drivertest.Inside(t, transport) {
			inside = append(inside, transport.Name())
		} else {
			others = append(others, transport.Name())
		}
	}
	for i, f := range faults() {
		n := 1
		if long {
			n = f.tries
		} else if i == 0 {
			n = 2
		}
		on := f.on
		if on == nil {
			on = slices.Clone(others)
			if long && f.name == "kill server" { // there is one without workers, too
				on = append(on, inside...)
			}
			random.Shuffle(len(on), func(i, j int) { on[i], on[j] = on[j], on[i] })
		}
		for n := range n {
			c := try{fault: f, variant: on[n%len(on)], choice: random.IntN(2),
				wait: time.Duration(random.IntN(500)) * time.Millisecond, pause: time.Duration(100+random.IntN(400)) * time.Millisecond}
			if c.inside = slices.Contains(inside, c.variant); random.IntN(8) == 0 { // when more of the result stands
				c.wait *= 5
			}
			list = append(list, c)
		}
	}
	random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

// faultRun is a run of the command that is to be disturbed.
type faultRun struct {
	background
	processes
	try     try
	path    string // of the command
	home    string // where it is started
	dir     string // its TMPDIR, and nobody else's
	shm     string // what is /dev/shm to it, and nobody else's; empty where it has that of all
	out     string
	saved   bool      // there was a part of the result before the fault
	began   time.Time // the fault
	ended   time.Time // the run; set before done is closed
	orphans []int     // descriptors of all processes of a server that is killed
	hurt    int       // the worker process that was hit
	role    string    // its
	missed  int       // how often one was hit that had done its work
}

// filler is the file that takes what room there is.
const filler = "filler"

func startFaultRun(t *testing.T, c try) *faultRun {
	t.Helper()
	path, err := exec.LookPath("ipcbench")
	check.Must(t, err)
	r := &faultRun{try: c, path: path, home: t.TempDir()}
	r.dir = shortDir(t) // sockets lie in it: t's own would be too long a name
	switch c.tiny {
	case tinyTmp:
		mountTiny(t, r.dir)
	case tinyOut:
		mountTiny(t, r.home)
	}
	r.out = filepath.Join(r.home, "result.json")
	args := []string{r.path, "run", "-q", "--transport", c.variant, "--model", "cnn", "--workers", "2", "--clients", strconv.Itoa(perRound), "--train-ms", "5", "--verify", "all",
		"--warmup", "0", "--precision", "0.000001", "--round-limit", roundLimit.String(), "--out", r.out, "--time", "6s", "--blocks", "400"}
	if c.whole {
		args = append(args, "--time", "60s", "--blocks", "1")
	}
	if apart() {
		r.shm, err = os.MkdirTemp(scratch.SharedMemory, "f")
		check.Must(t, err)
		t.Cleanup(func() { _ = os.RemoveAll(r.shm) })
		if c.tiny == tinyShm {
			mountTiny(t, r.shm)
		}
		args = append([]string{"sh", "-c", `mount --bind "$0" ` + scratch.SharedMemory + ` && exec "$@"`, r.shm}, args...)
	} else if c.tiny == tinyShm {
		skip.Refused(t, "a /dev/shm of its own")
	}
	r.id, r.done = idEnv+"="+r.dir+".", make(chan struct{})
	r.cmd = exec.Command(args[0], args[1:]...)
	if r.shm != "" {
		r.cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	}
	r.cmd.Dir, r.cmd.Env = r.home, append(os.Environ(), "TMPDIR="+r.dir, r.id)
	r.cmd.Stderr, r.cmd.Stdout = r, &r.stdout
	check.Must(t, r.cmd.Start())
	go func() {
		_ = r.cmd.Wait() // its exit code is looked at later
		r.ended = time.Now()
		close(r.done)
	}()
	t.Cleanup(func() {
		r.end()
		for _, segment := range r.segments(t) {
			check.Must(t, os.RemoveAll(segment))
		}
	})
	return r
}

// end kills what lives of the run, workers that are stopped too, and waits for its end.
func (r *faultRun) end() {
	for {
		_ = r.cmd.Process.Kill() // most have ended
		for pid := range r.alive() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		select {
		case <-r.done:
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// apart reports whether a process can have a /dev/shm of its own here.
var apart = sync.OnceValue(func() bool {
	cmd := exec.Command("sh", "-c", "mount --bind "+scratch.SharedMemory+" "+scratch.SharedMemory)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	return cmd.Run() == nil
})

// mountTiny makes dir a small file system until the test ends.
func mountTiny(t *testing.T, dir string) {
	t.Helper()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=700,size="+strconv.Itoa(room)); err != nil {
		skip.Refused(t, "a small tmpfs: %v", err)
	}
	t.Cleanup(func() { check.Must(t, unix.Unmount(dir, unix.MNT_DETACH)) })
}

// until waits for what a run has to come to before its fault.
func (r *faultRun) until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	waiting.Until(t, what, func() bool {
		select {
		case <-r.done:
			t.Fatalf("ended early:\n%s", r.text())
		default:
		}
		return ok()
	})
}

// ready waits for the first session.
func (r *faultRun) ready(t *testing.T) {
	t.Helper()
	if !r.try.inside {
		r.worker(t)
		return
	}
	r.until(t, "session", func() bool {
		found, err := os.ReadDir(r.dir)
		return err == nil && len(found) > 0
	})
}

// worker waits for a worker process, and returns its id and its role.
func (r *faultRun) worker(t *testing.T) (pid int, role string) {
	t.Helper()
	r.until(t, "worker", func() bool {
		for pid, role = range r.alive() {
			if strings.HasPrefix(role, "process ") {
				return true
			}
		}
		return false
	})
	return pid, role
}

// hit sends a signal to some worker.
func (r *faultRun) hit(t *testing.T, signal syscall.Signal) int {
	t.Helper()
	for {
		r.hurt, r.role = r.worker(t)
		r.began = time.Now()
		if err := syscall.Kill(r.hurt, signal); err == nil {
			return r.hurt
		} else if !errors.Is(err, syscall.ESRCH) { // it has just ended
			t.Fatal(err)
		}
	}
}

// goesOn reports whether the session whose worker was hit has ended in order: another
// process has its role or, if the run should have ended, none has any.
func (r *faultRun) goesOn(late bool) bool {
	workers := false
	for pid, role := range r.alive() {
		if role == r.role && pid != r.hurt {
			return true
		}
		workers = workers || strings.HasPrefix(role, "process ")
	}
	return late && !workers
}

// signal sends a signal to the server.
func (r *faultRun) signal(t *testing.T, signal syscall.Signal) {
	t.Helper()
	if signal == syscall.SIGKILL {
		for pid := range r.alive() {
			if fd, err := unix.PidfdOpen(pid, 0); err == nil { // else it has just ended
				r.orphans = append(r.orphans, fd)
			}
		}
	}
	r.began = time.Now()
	check.Must(t, r.cmd.Process.Signal(signal))
}

// orphaned waits until all processes have ended whose server was killed.
func (r *faultRun) orphaned(t *testing.T) {
	t.Helper()
	for _, fd := range r.orphans {
		for left := soon; left > 0; left = soon - time.Since(r.began) {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(left.Milliseconds()))
			if n > 0 || err != nil && !errors.Is(err, syscall.EINTR) {
				break
			}
		}
		check.Must(t, unix.Close(fd))
	}
	r.ended = time.Now()
}

// result waits until a part of the result is saved.
func (r *faultRun) result(t *testing.T) {
	t.Helper()
	r.until(t, "result", func() bool { _, err := os.Stat(r.out); return err == nil })
	r.saved = true
}

// fill takes all room of a file system until the run ends, also what the run gives
// back, and calls then once there is none.
func (r *faultRun) fill(t *testing.T, dir string, then func()) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, filler))
	check.Must(t, err)
	defer f.Close()
	chunk, late := make([]byte, 1<<20), time.After(soon)
	for first := true; ; first = false {
		for err = nil; err == nil; {
			_, err = f.Write(chunk)
		}
		check.Need(t, errors.Is(err, syscall.ENOSPC), "%v", err)
		if first {
			then()
		}
		select {
		case <-time.After(time.Millisecond):
		case <-late:
			return
		case <-r.done:
			return
		}
	}
}

// starve gives a worker no more memory: the kernel kills it when it takes a page.
func (r *faultRun) starve(t *testing.T) {
	t.Helper()
	group := fullGroup(t)
	for {
		r.hurt, r.role = r.worker(t)
		r.began = time.Now()
		err := os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(strconv.Itoa(r.hurt)), 0)
		if err == nil {
			return
		} else if !errors.Is(err, syscall.ESRCH) { // it has just ended
			t.Fatal(err)
		}
	}
}

// fullGroup makes a memory cgroup with hardly any memory, below that of this process.
func fullGroup(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/cgroup")
	check.Must(t, err)
	for line := range strings.Lines(string(text)) {
		_, own, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, path, _ := strings.Cut(own, ":")
		root, limit := "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
		if controllers == "" {
			root, limit = "/sys/fs/cgroup", "memory.max"
		} else if controllers != "memory" {
			continue
		}
		group, err := os.MkdirTemp(filepath.Join(root, path), "ipcbench-test-")
		if err != nil {
			continue
		}
		t.Cleanup(func() { check.Must(t, os.Remove(group)) }) // empty by then
		if f, err := os.OpenFile(filepath.Join(group, limit), os.O_WRONLY, 0); err == nil {
			_, err = f.WriteString("65536")
			check.Must(t, errors.Join(err, f.Close()))
			return group
		}
	}
	skip.Refused(t, "a memory cgroup")
	return ""
}

// truncate cuts segments of the run off until it ends.
func (r *faultRun) truncate(t *testing.T) {
	t.Helper()
	patterns := truncated[r.try.variant]
	late := time.After(soon)
	for cut := []string(nil); ; {
		if found, began := truncate(t, r.segments(t), patterns[r.try.choice%len(patterns)]); found != nil && !slices.Equal(found, cut) {
			if cut != nil { // the session had just ended
				r.missed++
			}
			cut, r.began = found, began
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-late:
			return
		case <-r.done:
			return
		}
	}
}

// segments returns the directories in shared memory whose owner is this run.
func (r *faultRun) segments(t *testing.T) []string {
	t.Helper()
	if r.shm == "" {
		return memoryOf(r.cmd.Process.Pid)
	}
	dirs, err := filepath.Glob(filepath.Join(r.shm, "ipcbench-*"))
	check.Must(t, err)
	return dirs
}

// An outcome is what came of a try.
type outcome struct {
	took    time.Duration // from the fault to the end of the run; of a killed server, to that of its workers
	missed  int           // how often what was hit had done its work
	named   bool          // the error names the fault
	left    int           // directories, files, sockets and processes
	after   int           // what ipcbench clean has left of them
	checked int64         // bytes whose hashes are those of the reference chain
	wrong   int64
}

// check looks at what the fault did, and at what is left. It fills o as it goes: what
// ends it half-way is counted, too.
func (r *faultRun) check(t *testing.T, o *outcome) {
	t.Helper()
	f := r.try.fault
	o.took = soon // unless it ends
	for deadline, ended := time.Now().Add(soon), false; !ended; {
		select {
		case <-r.done:
			ended = true
		case <-time.After(100 * time.Millisecond):
			late := time.Now().After(deadline)
			if f.late && r.goesOn(late) {
				r.missed++
				f.do(t, r)
				deadline = time.Now().Add(soon)
			} else if late {
				t.Errorf("has not ended after %v:\n%s", soon, r.text())
				r.end()
				if !r.began.IsZero() {
					o.took = r.ended.Sub(r.began)
				}
				o.missed = r.missed
				r.read(t, o)
				return // what is left was never its to remove
			}
		}
	}
	killed := f.code < 0 // it could not tidy up, nor say anything
	if killed {
		r.orphaned(t)
	}
	o.took, o.missed = 0, r.missed
	if !r.began.IsZero() {
		o.took = r.ended.Sub(r.began)
	}
	for deadline := time.Now().Add(soon); len(r.alive()) > 0; <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Errorf("processes live %v after the end: %v", soon, r.alive())
			o.left = len(r.alive())
			break
		}
		if killed { // a process that was being started
			o.took = time.Since(r.began)
		}
	}
	t.Logf("ended after %v: %s", o.took.Round(time.Millisecond), strings.TrimSpace(r.text()))
	check.Equal(t, r.cmd.ProcessState.ExitCode(), f.code, "exit code")
	o.named = regexp.MustCompile(f.says).MatchString(r.text()) && !strings.Contains(r.text(), "goroutine ")
	if !o.named {
		t.Errorf("stderr does not match %q, or shows a stack trace:\n%s", f.says, r.text())
	}
	left := r.left(t)
	if o.left += len(left); killed {
		left = r.clean(t, left)
	}
	o.after = len(r.alive())
	o.after += len(left)
	check.That(t, o.after <= 0, "left behind: %v", left)
	r.read(t, o)
}

// left returns what there is of the run besides its result: paths, and the lines of
// sockets.
func (r *faultRun) left(t *testing.T) []string {
	t.Helper()
	dirs := []string{r.dir, r.home}
	var left []string
	if r.shm == "" {
		left = r.segments(t)
	} else { // all of it is the run's
		dirs = append(dirs, r.shm)
	}
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		check.Must(t, err)
		for _, e := range entries {
			if path := filepath.Join(dir, e.Name()); e.Name() != filler && path != r.out {
				left = append(left, path)
			}
		}
	}
	sockets, err := os.ReadFile("/proc/net/unix")
	check.Must(t, err)
	for line := range strings.Lines(string(sockets)) {
		if strings.Contains(line, r.dir+"/") {
			left = append(left, line)
		}
	}
	return left
}

// clean has ipcbench clean find and remove what the run has left, and returns what is
// left then. Others may run ipcbench on this machine: what is theirs is not touched.
func (r *faultRun) clean(t *testing.T, left []string) []string {
	t.Helper()
	run := func(args ...string) string {
		cmd := exec.Command(r.path, append([]string{"clean"}, args...)...)
		cmd.Env = append(os.Environ(), "TMPDIR="+r.dir)
		out, err := cmd.CombinedOutput()
		check.That(t, err == nil, "clean: %v\n%s", err, out)
		return string(out)
	}
	var dirs []string
	for _, path := range left {
		if !strings.HasPrefix(filepath.Base(path), "ipcbench-") {
			continue
		}
		dirs = append(dirs, path)
		if _, err := os.Stat(filepath.Join(path, "lock")); errors.Is(err, fs.ErrNotExist) { // it is left alone for a minute
			long := time.Now().Add(-time.Hour)
			check.Must(t, os.Chtimes(path, long, long))
		}
	}
	if len(dirs) == 0 {
		return left
	}
	found := run("--dry-run", "--dir", cmp.Or(r.shm, r.dir))
	for _, dir := range dirs {
		check.That(t, strings.Contains(found, dir+": "), "clean does not find %s:\n%s", dir, found)
	}
	run(dirs...)
	return r.left(t)
}

// wrongData is what an error says of bytes that are not what was sent.
var wrongData = regexp.MustCompile(`delivered wrong data|bytes [0-9]+ to [0-9]+ are [0-9a-f]+, want`)

// read looks at the result: every block in it is proved.
func (r *faultRun) read(t *testing.T, o *outcome) {
	t.Helper()
	if wrongData.MatchString(r.text()) {
		cnn, err := models.Parse("cnn")
		check.Must(t, err)
		o.wrong = int64(2 * perRound * cnn.Layout.Size())
		t.Errorf("wrong data:\n%s", r.text())
	}
	result, err := result.ReadFile(r.out)
	if errors.Is(err, fs.ErrNotExist) && !r.saved {
		return // it ended before the first cycle did
	}
	if err != nil || result.Partial == "" {
		t.Errorf("the result cannot be read, or is not marked as partial: %v", err)
		return
	}
	for _, c := range result.Cells {
		if len(c.Blocks) > 0 && !c.Proved() {
			t.Errorf("%s has blocks that are not proved", c.ID())
			continue
		}
		for _, b := range c.Blocks {
			o.checked += int64(b.Proof.Hashed) * c.Payload()
		}
	}
}
