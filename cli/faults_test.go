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

// A fault is what happens to a run, and what the run must do then.
type fault struct {
	name  string
	tries int // of make soak
	least int // of all others; 0 is 1
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
				r.began = time.Now()
				r.Send(s)
			}
		}
	}
	interrupt := server(syscall.SIGINT)
	fill := func(dir func(*faultRun) string) func(*testing.T, *faultRun) {
		return func(t *testing.T, r *faultRun) { r.fill(t, dir(r), func() { r.began = time.Now() }) }
	}
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
		{name: "stop server, INT", tries: 18, do: func(t *testing.T, r *faultRun) { // its workers wait, and it has not looked at them
			r.Send(syscall.SIGSTOP)
			<-time.After(stopped)
			server(syscall.SIGCONT, syscall.SIGINT)(t, r)
		}, code: 130, says: `interrupted by SIGINT`},
		{name: "full TMPDIR", tries: 18, do: fill(func(r *faultRun) string { return r.dir }), code: 1, says: full, tiny: tinyTmp},
		{name: "full disk, result", tries: 18, do: func(t *testing.T, r *faultRun) {
			r.result(t)
			r.fill(t, r.home, func() { interrupt(t, r) })
		}, code: 130, says: `interrupted by SIGINT(.|\n)*` + full + `(.|\n)*is unharmed`, tiny: tinyOut},
		{name: "full /dev/shm", tries: 18, do: fill(func(r *faultRun) string { return r.shm }), code: 1, says: full + `|in /dev/shm, [0-9]+ are available`, tiny: tinyShm,
			on: []string{"shm-tensor", "shm-tensor:reuse=on", "http-shm"}},
		{name: "full memory", tries: 18, do: func(t *testing.T, r *faultRun) { r.starve(t) }, code: 1, says: `process [01] exited: signal: killed`, late: true},
		{name: "truncated segment", tries: 24, least: 4, do: func(t *testing.T, r *faultRun) { r.truncate(t) }, code: 1,
			says: `memory fault in .*, at byte (.|\n)*truncated to 0 bytes`, whole: true, on: []string{"http-shm", "shm-tensor:reuse=on"}},
	}
}

// TestFaults: B25, A23, A28: workers and servers that are killed, stopped and
// interrupted at any time, disks and shared memory that are full, and segments that
// somebody truncates, with every transport: the run ends soon, with the right code, and
// names the cause; nothing is left, or what a killed server has left is found and
// removed; what was measured can be read, and its data is right. At the end there is a
// line for each fault, of 1,000 kills and more with make soak. IPCBENCH_TEST_SEED repeats a
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
	scores := &scores{of: map[string]*score{}}
	t.Cleanup(func() { scores.show(long) }) // after all of them
	for n, c := range tries(t, rand.New(rand.NewPCG(seed, 0)), long) {
		t.Run(fmt.Sprintf("%s/%s/%d", c.name, c.variant, n), func(t *testing.T) {
			t.Parallel()
			r := &faultRun{try: c}
			defer func() { scores.add(t, r) }() // also a try that ends half-way
			r.start(t)
			r.ready(t)
			check.Need(t, !r.over(c.wait), "ended early:\n%s", &r.Stderr) // some are hit as they start, and some in the middle
			_, err := os.Stat(r.out)
			r.saved = err == nil
			c.do(t, r)
			r.check(t)
		})
	}
}

// scores are what came of all tries of each fault.
type scores struct {
	mu sync.Mutex
	of map[string]*score // guarded by mu
}

type score struct {
	runs, failed, refused, left int
	worst                       time.Duration
	proved                      int64 // bytes
}

// add counts a try.
func (s *scores) add(t *testing.T, r *faultRun) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.of[r.try.name]
	if c == nil {
		c = &score{}
		s.of[r.try.name] = c
	}
	if t.Skipped() {
		c.refused++
		return
	}
	c.runs++
	if t.Failed() {
		c.failed++
	}
	c.left += r.left
	c.worst = max(c.worst, r.took)
	c.proved += r.proved
}

// show prints a line for each fault, with make soak.
func (s *scores) show(long bool) {
	for _, f := range faults() {
		if c := s.of[f.name]; long && c != nil {
			fmt.Printf("%s: %d runs, %d failed, %d refused by the kernel, ended within %v, left %d for clean, %.3g MB proved\n",
				f.name, c.runs, c.failed, c.refused, c.worst.Round(time.Millisecond), c.left, float64(c.proved)/1e6)
		}
	}
}

// A try is a fault that one run has.
type try struct {
	fault
	variant     string
	wait, pause time.Duration
	choice      int  // of two that the fault has
	inside      bool // there are no worker processes
}

// tries returns what to try, in random order: with long all that make soak does, else
// every fault, and some of them on several variants.
func tries(t *testing.T, random *rand.Rand, long bool) (list []try) {
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
			if long && f.name == "kill server" { // there is one without workers, too
				on = append(on, inside...)
			}
			random.Shuffle(len(on), func(i, j int) { on[i], on[j] = on[j], on[i] })
		}
		n := max(f.least, 1)
		if long {
			n = f.tries
		}
		for n := range n {
			c := try{fault: f, variant: on[n%len(on)], choice: n / len(on) % 2,
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
	*child.Child
	try    try
	mark   string // of its processes
	home   string // where it is started
	dir    string // its TMPDIR, and nobody else's
	shm    string // what is /dev/shm to it, and nobody else's; empty where it has that of all
	out    string
	saved  bool // there was a part of the result before the fault
	began  time.Time
	took   time.Duration // from the fault to the end; of a killed server, to that of its workers
	left   int           // directories, files, sockets and processes, before clean
	proved int64         // bytes
	hurt   int           // the worker process that was hit
	role   string        // its
}

// filler is the file that takes what room there is.
const filler = "filler"

func (r *faultRun) start(t *testing.T) {
	t.Helper()
	r.dir = shortDir(t) // sockets lie in it: t's own would be too long a name
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
	switch r.try.tiny {
	case tinyTmp:
		mountTiny(t, r.dir)
	case tinyOut:
		mountTiny(t, r.home)
	case tinyShm:
		if r.shm == "" {
			skip.Refused(t, "a /dev/shm of its own")
		}
		mountTiny(t, r.shm)
	}
	r.Child = child.Start(t, cmd)
	t.Cleanup(func() {
		r.end()
		for _, segment := range r.segments() {
			check.Must(t, os.RemoveAll(segment))
		}
	})
}

// end kills what lives of the run, workers that are stopped too, and waits for its end.
func (r *faultRun) end() {
	for ended := false; !ended; ended = r.over(100 * time.Millisecond) {
		_ = r.Process.Kill() // most have ended
		for pid := range alive(r.mark) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// over reports whether the run has ended. It waits for that so long.
func (r *faultRun) over(d time.Duration) bool {
	select {
	case <-r.Done:
		return true
	case <-time.After(d):
		return false
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

// ready waits for the first session.
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

// worker waits for a worker process, and returns its id and its role.
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

// strike does something to some worker.
func (r *faultRun) strike(t *testing.T, do func(pid int) error) int {
	t.Helper()
	for {
		r.hurt, r.role = r.worker()
		r.began = time.Now()
		err := do(r.hurt)
		if err == nil {
			return r.hurt
		}
		check.Need(t, errors.Is(err, syscall.ESRCH), "%v", err) // it has just ended
	}
}

// hit sends a signal to some worker.
func (r *faultRun) hit(t *testing.T, signal syscall.Signal) int {
	t.Helper()
	return r.strike(t, func(pid int) error { return syscall.Kill(pid, signal) })
}

// starve gives a worker no more memory: the kernel kills it when it takes a page.
func (r *faultRun) starve(t *testing.T) {
	t.Helper()
	group := controlGroup(t, "memory", "memory.limit_in_bytes", "memory.max", "65536") // hardly any
	r.strike(t, func(pid int) error {
		return os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
	})
}

// goesOn reports whether the session whose worker was hit has ended in order: another
// process has its role or, if the run should have ended, none has any.
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

// fill takes all room of a file system until the run ends, also what the run gives
// back, and calls then once there is none.
func (r *faultRun) fill(t *testing.T, dir string, then func()) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, filler))
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

// controlGroup makes a control group with a limit, in version 1 or 2: below the group of
// this process, or one around that. It has to be empty when the test ends.
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

// truncate cuts segments of the run off until it ends, which names one of them. It waits
// until server and worker have mapped each of them: one that is opened later is refused for
// its size.
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
				err := os.Chmod(path, 0o600) // some may only be read, which does not stop their owner
				if err == nil {
					err = os.Truncate(path, 0)
				}
				check.That(t, err == nil || errors.Is(err, fs.ErrNotExist), "%v", err) // gone meanwhile
			}
		}
	}
	check.That(t, slices.ContainsFunc(cut, func(path string) bool {
		return strings.Contains(r.Stderr.String(), filepath.Join(filepath.Base(filepath.Dir(path)), filepath.Base(path))+", at byte ")
	}), "%v were truncated", cut)
}

// mapped reports whether two processes of the run or more have each of the files mapped. To
// them, a file may lie elsewhere, in the same directory of a session.
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

// segments returns the directories in shared memory whose owner is this run.
func (r *faultRun) segments() []string {
	if r.shm == "" {
		return sessions(scratch.SharedMemory, r.Process.Pid)
	}
	dirs, _ := filepath.Glob(filepath.Join(r.shm, "ipcbench-*")) // the pattern is well-formed
	return dirs
}

// check looks at what the fault did, and at what is left.
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
			t.Fatalf("has not ended after %v:\n%s", soon, &r.Stderr) // what is left was never its to remove
		}
	}
	killed := f.code < 0 // it could not tidy up, nor say anything
	ended := time.Now()
	for len(alive(r.mark)) > 0 {
		check.Need(t, time.Since(ended) < soon, "processes live %v after the end: %v", soon, alive(r.mark))
		<-time.After(5 * time.Millisecond)
	}
	r.took = time.Since(r.began)
	t.Logf("ended after %v: %s", r.took.Round(time.Millisecond), strings.TrimSpace(r.Stderr.String()))
	r.Ends(soon, f.code, f.says)
	left := r.rest(t)
	if r.left = len(left); killed {
		left = r.clean(t, left)
	}
	check.That(t, len(left) == 0, "left behind: %v", left)
	r.read(t)
}

// rest returns what there is of the run besides its result: paths, and the lines of
// sockets.
func (r *faultRun) rest(t *testing.T) []string {
	t.Helper()
	dirs := []string{r.dir, r.home}
	var left []string
	if r.shm == "" {
		left = r.segments()
	} else { // all of it is the run's
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

// clean has ipcbench clean find and remove what the run has left, and returns what is
// left then. Others may run ipcbench on this machine: what is theirs is not touched.
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
	return r.rest(t)
}

// wrongData is what an error says of bytes that are not what was sent.
var wrongData = regexp.MustCompile(`delivered wrong data|bytes [0-9]+ to [0-9]+ are [0-9a-f]+, want`)

// read looks at the result: every block in it is proved.
func (r *faultRun) read(t *testing.T) {
	t.Helper()
	check.That(t, !wrongData.MatchString(r.Stderr.String()), "wrong data:\n%s", &r.Stderr)
	result, err := result.ReadFile(r.out)
	if errors.Is(err, fs.ErrNotExist) && !r.saved {
		return // it ended before the first cycle did
	}
	check.Need(t, err == nil && result.Partial != "", "the result cannot be read, or is not marked as partial: %v", err)
	for _, c := range result.Cells {
		check.That(t, len(c.Blocks) == 0 || c.Proved(), "%s has blocks that are not proved", c.ID())
		for _, b := range c.Blocks {
			r.proved += int64(b.Proof.Hashed) * c.Payload()
		}
	}
}
