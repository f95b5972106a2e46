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
	"ipcbench/internal/test/child"
	"ipcbench/internal/test/proc"
	"ipcbench/internal/test/skip"
	"ipcbench/transports/all"
	"ipcbench/transports/driver/drivertest"
)

// A fault is a disturbance of a run, and the required outcome.
type fault struct {
	name  string
	tries int // number of runs in make soak
	least int // number of runs otherwise; zero means one
	do    func(t *testing.T, r *faultRun)
	code  int    // exit code of the run; -1 means killed by a signal
	says  string // pattern that stderr must match

	late  bool                     // the worker may end before it is hit: then the run goes on, and the next one is hit
	tiny  func(r *faultRun) string // the directory to put on a small file system of its own; nil for none
	whole bool                     // one long block instead of hundreds of short ones
	on    []string                 // variants to test; nil means every transport that has worker processes
}

// room is the size of a small file system, in bytes. A run needs less than half of it.
const room = 32 << 20

// roundLimit is the run's --round-limit. stopped is how long a server is stopped.
const (
	roundLimit = 3 * time.Second
	stopped    = roundLimit + time.Second
)

// truncated has patterns of the segments to truncate while a run has them mapped, by
// variant. The first is for segments that the server writes, the second for segments that
// workers write.
var truncated = map[string][]string{"http-shm": {"models", "updates-*"}, "shm-tensor:reuse=on": {"model-*", "update-*"}}

// faults returns the faults to test. Each run must end within soon (B25); most end in a
// fraction of a second.
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
				r.began = time.Now()
				r.Send(s)
			}
		}
	}
	interrupt := server(syscall.SIGINT)
	fill := func(t *testing.T, r *faultRun) { r.fill(t, func() { r.began = time.Now() }) }
	const full = `no space left on device`
	return []fault{
		{name: "kill worker", tries: 500, least: 2, do: hit(syscall.SIGKILL), code: 1, says: `process [01] exited: signal: killed`, late: true},
		{name: "kill server", tries: 500, do: server(syscall.SIGKILL), code: -1},
		{name: "terminate worker", tries: 36, do: hit(syscall.SIGTERM), code: 1, says: `process [01] exited: signal: terminated`, late: true},
		{name: "terminate server", tries: 36, do: server(syscall.SIGTERM), code: 143, says: `interrupted by SIGTERM`},
		{name: "interrupt server", tries: 36, do: interrupt, code: 130, says: `interrupted by SIGINT`},
		{name: "stop worker", tries: 36, do: hit(syscall.SIGSTOP), code: 1, says: `process [01] .* is stopped \(T\)`, late: true},
		{name: "stop worker, INT", tries: 18, do: func(t *testing.T, r *faultRun) {
			r.hit(t, syscall.SIGSTOP)
			interrupt(t, r)
		}, code: 130, says: `interrupted by SIGINT`},
		{name: "stop, go on, INT", tries: 18, do: func(t *testing.T, r *faultRun) {
			pid := r.hit(t, syscall.SIGSTOP)
			<-time.After(r.try.pause) // less than the round limit
			_ = syscall.Kill(pid, syscall.SIGCONT)
			<-time.After(r.try.pause)
			files := proc.Descriptors(r.Process.Pid)
			check.That(t, files <= 100, "the server has %d open files", files)
			interrupt(t, r)
		}, code: 130, says: `interrupted by SIGINT`},
		{name: "stop server, kill", tries: 18, do: server(syscall.SIGSTOP, syscall.SIGKILL), code: -1},
		{name: "stop server, INT", tries: 18, do: func(t *testing.T, r *faultRun) { // its workers wait while it is stopped, for longer than the round limit
			r.Send(syscall.SIGSTOP)
			<-time.After(stopped)
			server(syscall.SIGCONT, syscall.SIGINT)(t, r)
		}, code: 130, says: `interrupted by SIGINT`},
		{name: "full TMPDIR", tries: 18, do: fill, code: 1, says: full, tiny: func(r *faultRun) string { return r.dir }},
		{name: "full disk, result", tries: 18, do: func(t *testing.T, r *faultRun) {
			r.result(t)
			r.fill(t, func() { interrupt(t, r) })
		}, code: 130, says: `interrupted by SIGINT(.|\n)*` + full + `(.|\n)*is unchanged(.|\n)*the result is in `,
			tiny: func(r *faultRun) string { return r.home }},
		{name: "full /dev/shm", tries: 18, do: fill, code: 1, says: full + `|in /dev/shm,( but)? [0-9]+ are available`,
			tiny: func(r *faultRun) string { return r.shm }, on: []string{"shm-tensor", "shm-tensor:reuse=on", "http-shm"}},
		{name: "full memory", tries: 18, do: func(t *testing.T, r *faultRun) { r.starve(t) }, code: 1,
			says: `process [01] exited: signal: killed(.|\n)*hint: .*memory, because the control group is limited to 1 GiB`, late: true},
		{name: "truncated segment", tries: 24, least: 4, do: func(t *testing.T, r *faultRun) { r.truncate(t) }, code: 1,
			says: `memory fault in .*, at byte (.|\n)*truncated to 0 bytes`, whole: true, on: []string{"http-shm", "shm-tensor:reuse=on"}},
	}
}

// TestFaults: B25, A23, A28: a run that meets a fault ends soon, with the right exit code
// and an error that names the cause. Faults are workers and servers killed, stopped or
// interrupted at any time, full disks and shared memory, and truncated segments, with every
// transport. Nothing is left, except by a killed server, whose leftovers ipcbench clean
// finds and removes. The saved part of the result can be read, and its data is right. With
// make soak, at least 1,000 processes are killed, and a line for each fault is printed at
// the end; IPCBENCH_TEST_SHARE is the percentage of these kills. IPCBENCH_TEST_SEED repeats a
// run of this test.
func TestFaults(t *testing.T) {
	skip.Long(t)
	long := os.Getenv("IPCBENCH_TEST_SOAK") != ""
	seed := uint64(1)
	if long {
		seed = uint64(time.Now().UnixNano())
	}
	if text := os.Getenv("IPCBENCH_TEST_SEED"); text != "" {
		seed = check.Value(strconv.ParseUint(text, 10, 64))(t)
	}
	t.Logf("IPCBENCH_TEST_SEED=%d", seed)
	var runs []*faultRun
	t.Cleanup(func() { // after all subtests
		if long {
			show(runs)
		}
	})
	for n, c := range tries(t, rand.New(rand.NewPCG(seed, 0)), long) {
		r := &faultRun{try: c}
		runs = append(runs, r)
		t.Run(fmt.Sprintf("%s/%s/%d", c.name, c.variant, n), func(t *testing.T) {
			t.Parallel()
			defer func() { r.failed, r.refused = t.Failed(), t.Skipped() }() // also if it fails midway
			r.start(t)
			r.ready(t)
			check.Need(t, !r.over(c.wait), "ended early:\n%s", &r.Stderr) // some runs are hit as they start, others in the middle
			_, err := os.Stat(r.out)
			r.saved = err == nil
			c.do(t, r)
			r.check(t)
		})
	}
}

// show prints a line for each fault.
func show(runs []*faultRun) {
	for _, f := range faults() {
		var all, failed, refused, left int
		var worst time.Duration
		var proved int64
		for _, r := range runs {
			switch {
			case r.try.name != f.name:
				continue
			case r.refused:
				refused++
				continue
			case r.failed:
				failed++
			}
			all, left, worst, proved = all+1, left+r.left, max(worst, r.took), proved+r.proved
		}
		fmt.Printf("%s: %d runs, %d failed, %d refused by the kernel, ended within %v, ",
			f.name, all, failed, refused, worst.Round(time.Millisecond))
		fmt.Printf("left %d for clean, %.3g MB proved\n", left, float64(proved)/1e6)
	}
}

// A try is one run with one fault.
type try struct {
	fault
	variant     string
	wait, pause time.Duration
	choice      int  // index of one of the fault's two choices
	inside      bool // the transport has no worker processes
}

// tries returns the tries in random order: all tries of make soak if long is set. Otherwise
// each fault is tried at least once, and some of them on several variants.
func tries(t *testing.T, random *rand.Rand, long bool) (list []try) {
	share := 100
	if text := os.Getenv("IPCBENCH_TEST_SHARE"); text != "" {
		share = check.Value(strconv.Atoi(text))(t)
	}
	var inside, others []string
	for _, transport := range all.Transports() {
		if drivertest.Inside(t, transport) {
			inside = append(inside, transport.Name())
		} else {
			others = append(others, transport.Name())
		}
	}
	for _, f := range faults() {
		on := f.on
		if on == nil {
			on = slices.Clone(others)
			if long && f.name == "kill server" { // transports without worker processes have a server to kill
				on = append(on, inside...)
			}
			random.Shuffle(len(on), func(i, j int) { on[i], on[j] = on[j], on[i] })
		}
		n := max(f.least, 1)
		if long {
			n = max(n, f.tries*share/100)
		}
		for n := range n {
			c := try{fault: f, variant: on[n%len(on)], choice: n / len(on) % 2,
				wait: time.Duration(random.IntN(500)) * time.Millisecond, pause: time.Duration(100+random.IntN(400)) * time.Millisecond}
			if c.inside = slices.Contains(inside, c.variant); random.IntN(8) == 0 { // some runs are hit later, when more of the result is saved
				c.wait *= 5
			}
			list = append(list, c)
		}
	}
	random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

// faultRun is a run of the command that gets a fault.
type faultRun struct {
	*child.Child
	try    try
	mark   string // environment entry that marks its processes
	home   string // its working directory
	dir    string // its TMPDIR, used by no other process
	shm    string // directory mounted as its /dev/shm, used by no other process; empty if it has the machine's
	out    string
	saved  bool // a part of the result was saved before the fault
	began  time.Time
	took   time.Duration // time from the fault to the end of the run and all its processes
	left   int           // number of directories, files, sockets and processes left, before clean
	proved int64         // bytes
	hurt   int           // id of the worker process that was hit
	role   string        // role of the worker process that was hit

	failed, refused bool // by a check; by the kernel
}

// filler names the file that fills the file system.
const filler = "filler"

func (r *faultRun) start(t *testing.T) {
	t.Helper()
	r.dir = shortDir(t) // sockets are in it: a path in t.TempDir would be too long
	r.mark = idEnv + "=" + r.dir + "."
	cmd := command(t, "run", "-q", "--transport", r.try.variant, "--model", "cnn", "--workers", "2",
		"--clients", "4", "--train-ms", "5", "--verify", "all", "--warmup", "0", "--precision", "0.000001", "--round-limit", roundLimit.String(), "--out", "result.json", "--time", "6s", "--blocks", "400")
	if r.try.whole {
		cmd.Args = append(cmd.Args, "--time", "60s", "--blocks", "1")
	}
	r.home, r.out = cmd.Dir, filepath.Join(cmd.Dir, "result.json")
	cmd.Env = append(cmd.Env, "TMPDIR="+r.dir, r.mark)
	if apart() {
		r.shm = check.Value(os.MkdirTemp(scratch.SharedMemory, "f"))(t)
		t.Cleanup(func() { _ = os.RemoveAll(r.shm) })
		shell := exec.Command("sh", append([]string{"-c", `mount --bind "$0" ` + scratch.SharedMemory + ` && exec "$@"`, r.shm}, cmd.Args...)...)
		shell.Dir, shell.Env, shell.SysProcAttr = cmd.Dir, cmd.Env, &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
		cmd = shell
	}
	if r.try.tiny != nil {
		mountTiny(t, r.try.tiny(r))
	}
	r.Child = child.Start(t, cmd)
	t.Cleanup(func() {
		r.end()
		for _, segment := range r.segments() {
			check.Must(t, os.RemoveAll(segment))
		}
	})
}

// end kills all remaining processes of the run, including stopped workers, and waits for
// its end.
func (r *faultRun) end() {
	for ended := false; !ended; ended = r.over(100 * time.Millisecond) {
		_ = r.Process.Kill() // fails if it has ended
		for pid := range alive(r.mark) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// over reports whether the run has ended. It waits for the end for at most d.
func (r *faultRun) over(d time.Duration) bool {
	select {
	case <-r.Done:
		return true
	case <-time.After(d):
		return false
	}
}

// apart reports whether a process can have a /dev/shm of its own on this machine.
var apart = sync.OnceValue(func() bool {
	cmd := exec.Command("sh", "-c", "mount --bind "+scratch.SharedMemory+" "+scratch.SharedMemory)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	return cmd.Run() == nil
})

// mountTiny mounts a small file system on dir until the test ends. dir is empty if the run
// cannot have a /dev/shm of its own.
func mountTiny(t *testing.T, dir string) {
	t.Helper()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=700,size="+strconv.Itoa(room)); err != nil {
		skip.Refused(t, "a small tmpfs: %v", err)
	}
	t.Cleanup(func() { check.Must(t, unix.Unmount(dir, unix.MNT_DETACH)) })
}

func (r *faultRun) ready(t *testing.T) {
	t.Helper()
	if !r.try.inside {
		r.worker()
		return
	}
	r.Until("session", func() bool {
		found, err := os.ReadDir(r.dir)
		return err == nil && len(found) > 0
	})
}

// worker waits for a worker process and returns its id and its role.
func (r *faultRun) worker() (pid int, role string) {
	r.Until("worker", func() bool {
		for pid, role = range alive(r.mark) {
			if strings.HasPrefix(role, "process ") {
				return true
			}
		}
		return false
	})
	return pid, role
}

// strike calls do with the id of a worker process, and again with another one if that
// worker has just ended. It returns the id.
func (r *faultRun) strike(t *testing.T, do func(pid int) error) int {
	t.Helper()
	for {
		r.hurt, r.role = r.worker()
		r.began = time.Now()
		err := do(r.hurt)
		if err == nil {
			return r.hurt
		}
		check.Need(t, errors.Is(err, syscall.ESRCH), "%v", err) // the worker has just ended
	}
}

// hit sends a signal to a worker process and returns its id.
func (r *faultRun) hit(t *testing.T, signal syscall.Signal) int {
	t.Helper()
	return r.strike(t, func(pid int) error { return syscall.Kill(pid, signal) })
}

// starve sets a worker's memory limit to 64 KiB: the kernel kills it when it touches a new
// page. The server's limit is large.
func (r *faultRun) starve(t *testing.T) {
	t.Helper()
	large := controlGroup(t, "memory", "memory.limit_in_bytes", "memory.max", strconv.Itoa(1<<30))
	check.Must(t, os.WriteFile(filepath.Join(large, "cgroup.procs"), []byte(strconv.Itoa(r.Process.Pid)), 0))
	group := controlGroup(t, "memory", "memory.limit_in_bytes", "memory.max", "65536") // less than any process uses
	r.strike(t, func(pid int) error {
		return os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
	})
}

// goesOn reports whether the session whose worker was hit has ended in order: another
// process has its role or, if late is set, no worker is left.
func (r *faultRun) goesOn(late bool) bool {
	workers := false
	for pid, role := range alive(r.mark) {
		if role == r.role && pid != r.hurt {
			return true
		}
		workers = workers || strings.HasPrefix(role, "process ")
	}
	return late && !workers
}

// result waits until a part of the result is saved.
func (r *faultRun) result(t *testing.T) {
	t.Helper()
	r.Until("result", func() bool { _, err := os.Stat(r.out); return err == nil })
	r.saved = true
}

// fill fills the small file system until the run ends, including space that the run frees. It calls
// then once the file system is full.
func (r *faultRun) fill(t *testing.T, then func()) {
	t.Helper()
	f, err := os.Create(filepath.Join(r.try.tiny(r), filler))
	check.Must(t, err)
	defer f.Close()
	chunk, begin := make([]byte, 1<<20), sync.OnceFunc(then)
	for until := time.Now().Add(soon); time.Now().Before(until) && !r.over(time.Millisecond); {
		for err = nil; err == nil; {
			_, err = f.Write(chunk)
		}
		check.Need(t, errors.Is(err, syscall.ENOSPC), "%v", err)
		begin()
	}
}

// controlGroup makes a control group with a limit, in cgroup version 1 or 2, below this
// process's group or one of its parents. The group must be empty when the test ends.
func controlGroup(t *testing.T, controller, one, two, limit string) (dir string) {
	t.Helper()
	text := check.Value(os.ReadFile("/proc/self/cgroup"))(t)
	for line := range strings.Lines(string(text)) {
		own := strings.SplitN(strings.TrimSpace(line), ":", 3)
		root, file := filepath.Join("/sys/fs/cgroup", controller), one
		if own[1] == "" {
			root, file = "/sys/fs/cgroup", two
		} else if !slices.Contains(strings.Split(own[1], ","), controller) {
			continue
		}
		for path := own[2]; ; path = filepath.Dir(path) {
			dir, err := os.MkdirTemp(filepath.Join(root, path), "ipcbench-test-")
			if err == nil {
				t.Cleanup(func() { check.OK(t, os.Remove(dir)) })
				if f, err := os.OpenFile(filepath.Join(dir, file), os.O_WRONLY, 0); err == nil {
					_, err = f.WriteString(limit)
					check.Must(t, errors.Join(err, f.Close()))
					return dir
				}
			}
			if path == "/" {
				break
			}
		}
	}
	skip.Refused(t, "a control group of %s", controller)
	return ""
}

// truncate truncates segments of the run until it ends, and checks that its error names one
// of them. It waits until server and worker have mapped each segment, because a segment
// that is opened later is rejected for its size.
func (r *faultRun) truncate(t *testing.T) {
	t.Helper()
	pattern := truncated[r.try.variant][r.try.choice]
	var cut []string
	for until := time.Now().Add(soon); time.Now().Before(until) && !r.over(10*time.Millisecond); {
		for _, dir := range r.segments() {
			found, _ := filepath.Glob(filepath.Join(dir, pattern)) // the pattern is well-formed
			if !r.mapped(found) {
				continue
			}
			if !slices.Equal(found, cut) { // again, if the session had just ended
				cut, r.began = found, time.Now()
			}
			for _, path := range found {
				err := os.Chmod(path, 0o600) // some are read-only, but their owner can change that
				if err == nil {
					err = os.Truncate(path, 0)
				}
				check.That(t, err == nil || errors.Is(err, fs.ErrNotExist), "%v", err) // the run may have removed it
			}
		}
	}
	check.That(t, slices.ContainsFunc(cut, func(path string) bool {
		return strings.Contains(r.Stderr.String(), filepath.Join(filepath.Base(filepath.Dir(path)), filepath.Base(path))+", at byte ")
	}), "%v were truncated", cut)
}

// mapped reports whether at least two processes of the run have mapped each of the files.
// It compares only the last two elements of each path, because a process may see the
// session's directory in another place.
func (r *faultRun) mapped(paths []string) bool {
	processes := alive(r.mark)
	for _, path := range paths {
		n := 0
		for pid := range processes {
			if strings.Contains(proc.Read(pid, "maps"), filepath.Join(filepath.Base(filepath.Dir(path)), filepath.Base(path))) {
				n++
			}
		}
		if n < 2 {
			return false
		}
	}
	return len(paths) > 0
}

func (r *faultRun) segments() []string {
	if r.shm == "" {
		return sessions(scratch.SharedMemory, r.Process.Pid)
	}
	dirs, _ := filepath.Glob(filepath.Join(r.shm, "ipcbench-*")) // the pattern is well-formed
	return dirs
}

// check checks how the run ended and that nothing is left.
func (r *faultRun) check(t *testing.T) {
	t.Helper()
	f, limit := r.try.fault, time.Now().Add(soon)
	for !r.over(100 * time.Millisecond) {
		late := time.Now().After(limit)
		if f.late && r.goesOn(late) {
			f.do(t, r)
			limit = time.Now().Add(soon)
		} else if late {
			r.end()
			r.read(t)
			t.Fatalf("has not ended after %v:\n%s", soon, &r.Stderr) // after SIGKILL it could not have removed anything
		}
	}
	killed := f.code < 0 // it could neither remove anything nor print an error
	ended := time.Now()
	for len(alive(r.mark)) > 0 {
		check.Need(t, time.Since(ended) < soon, "processes live %v after the end: %v", soon, alive(r.mark))
		<-time.After(5 * time.Millisecond)
	}
	r.took = time.Since(r.began)
	t.Logf("ended after %v: %s", r.took.Round(time.Millisecond), strings.TrimSpace(r.Stderr.String()))
	r.Ends(soon, f.code, f.says)
	if f.tiny != nil && f.tiny(r) == r.home {
		kept, _ := filepath.Glob(filepath.Join(r.dir, "result-*.json")) // the pattern is well-formed
		check.Need(t, len(kept) == 1, "got %v, want the result", kept)
		check.OK(t, check.Err(result.ReadFile(kept[0])))
		check.Must(t, os.Remove(kept[0]))
	}
	left := r.rest(t)
	if r.left = len(left); killed {
		left = r.clean(t, left)
	}
	check.That(t, len(left) == 0, "left behind: %v", left)
	r.read(t)
}

// rest returns everything left of the run, except its result: paths, and lines of
// /proc/net/unix.
func (r *faultRun) rest(t *testing.T) []string {
	t.Helper()
	dirs := []string{r.dir, r.home}
	var left []string
	if r.shm == "" {
		left = r.segments()
	} else { // everything in it belongs to the run
		dirs = append(dirs, r.shm)
	}
	for _, dir := range dirs {
		entries := check.Value(os.ReadDir(dir))(t)
		for _, e := range entries {
			if path := filepath.Join(dir, e.Name()); e.Name() != filler && path != r.out {
				left = append(left, path)
			}
		}
	}
	sockets := check.Value(os.ReadFile("/proc/net/unix"))(t)
	for line := range strings.Lines(string(sockets)) {
		if strings.Contains(line, r.dir+"/") {
			left = append(left, line)
		}
	}
	return left
}

// clean lets ipcbench clean find and remove the run's leftovers, and returns the rest. It
// removes only these directories, because others may run ipcbench on this machine.
func (r *faultRun) clean(t *testing.T, left []string) []string {
	t.Helper()
	run := func(args ...string) string {
		cmd := command(t, append([]string{"clean"}, args...)...)
		cmd.Env = append(cmd.Env, "TMPDIR="+r.dir)
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
		if _, err := os.Stat(filepath.Join(path, "lock")); errors.Is(err, fs.ErrNotExist) { // clean ignores directories without a lock for a minute
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
	return r.rest(t)
}

// wrongData matches errors about data that differs from the data sent.
var wrongData = regexp.MustCompile(`delivered wrong data|bytes [0-9]+ to [0-9]+ are [0-9a-f]+, want`)

// read checks that every block in the result is proved.
func (r *faultRun) read(t *testing.T) {
	t.Helper()
	check.That(t, !wrongData.MatchString(r.Stderr.String()), "wrong data:\n%s", &r.Stderr)
	result, err := result.ReadFile(r.out)
	if errors.Is(err, fs.ErrNotExist) && !r.saved {
		return // the run ended before its first cycle did
	}
	check.Need(t, err == nil && result.Partial != "", "the result cannot be read, or is not marked as partial: %v", err)
	for _, c := range result.Cells {
		check.That(t, len(c.Blocks) == 0 || c.Proved(), "%s has blocks that are not proved", c.ID())
		for _, b := range c.Blocks {
			r.proved += int64(b.Proof.Hashed) * c.Payload()
		}
	}
}
