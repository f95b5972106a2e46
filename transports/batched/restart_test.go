package batched

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
)

// A process is a server in a process of its own, with one job for one worker.
type process struct {
	cmd   *exec.Cmd
	path  string         // of its socket
	lines *bufio.Scanner // of its output
}

// asServer names the variable that makes TestServerProcess a server: its variant
// and the session's secret. Its directory is the one in which it runs.
const asServer = "IPCBENCH_TEST_SERVER"

// ofProcess returns what both processes agree on: 1 MB of model.
func ofProcess(t *testing.T) driver.Options {
	t.Helper()
	l := layoutOf(t, 100_000, 1, 0, 100_000, 50_000)
	return driver.Options{Down: l, Up: l, Lanes: 1, Clients: 1, Depth: 1}
}

// TestServerProcess is the life of such a process, and nothing in any other.
func TestServerProcess(t *testing.T) {
	words := strings.Fields(os.Getenv(asServer))
	if len(words) != 2 {
		return
	}
	r := &rig{t: t, o: ofProcess(t), at: driver.EndpointAt("", words[1])}
	r.start(words[0])
	defer r.shutdown()
	r.publish(1)
	r.dispatch(0, jobOf(0, 0))
	fmt.Println("listening")
	p, err := r.session.Collect(limited(t), 0)
	check.Must(t, err)
	defer p.Release()
	check.Must(t, tensor.Prove(p, r.model, keyOf(jobOf(0, 0))))
	fmt.Println("proved")
}

// startProcess starts a server and waits until it listens. It ends with the test.
func startProcess(t *testing.T, variantName string) *process {
	t.Helper()
	dir := t.TempDir()
	p := &process{
		cmd:  exec.CommandContext(waiting.Context(t), os.Args[0], "-test.run=^TestServerProcess$"),
		path: filepath.Join(dir, "socket"),
	}
	p.cmd.Env = append(os.Environ(), asServer+"="+variantName+" "+ofProcesses)
	p.cmd.Dir = dir
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	check.Must(t, err)
	t.Cleanup(func() { _ = p.cmd.Wait() }) // it has been waited for, or is killed now
	p.lines = bufio.NewScanner(out)
	check.Need(t, p.says("listening"), "the server does not listen")
	return p
}

// ofProcesses is the secret of all of them.
const ofProcesses = "secret"

// says waits for a line.
func (p *process) says(want string) bool {
	for p.lines.Scan() {
		if p.lines.Text() == want {
			return true
		}
	}
	return false
}

// TestKilledServer: O22. A server's process is killed in the middle of a transfer.
// If another one takes its place, with the same secret and job, the worker ends
// the job there, with correct data; if none does, it gives up. Either way it has
// counted what it made again.
func TestKilledServer(t *testing.T) {
	for _, variantName := range []string{"grpc-tensor", "grpc-batch", "grpc-stream"} {
		for _, upload := range []bool{false, true} {
			for _, returns := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s/upload=%v/returns=%v", variantName, upload, returns), func(t *testing.T) {
					t.Parallel()
					killServer(t, variantName+":chunk=64KiB:deadline=60", upload, returns)
				})
			}
		}
	}
}

func killServer(t *testing.T, variantName string, upload, returns bool) {
	first := startProcess(t, variantName)
	next := first // whose socket nobody listens on any more
	if returns {
		next = startProcess(t, variantName)
	}
	c := newCutter(t, first.path, 500_000)
	killed := make(chan error, 1)
	c.mu.Lock()
	c.onlyUp = upload
	c.atCut = func() string {
		killed <- first.cmd.Process.Kill()
		_ = first.cmd.Wait() // it says that it was killed
		return next.path
	}
	c.mu.Unlock()
	o := ofProcess(t)
	o.Rec = phase.NewRecorder(1 << 12)
	w, err := dialTo(limited(t), t, variantName, driver.EndpointAt("unix:"+c.path, ofProcesses), 0, o)
	check.Must(t, err)
	waiting.Promise(t, "O22", 60*time.Second, func() { err = turn(w) }) // the deadline that it has
	check.OK(t, <-killed, "the server was not killed")
	if returns {
		if err != nil {
			t.Errorf("with a new server: %v", err)
		} else if !next.says("proved") {
			t.Error("the update is wrong")
		} else if err := next.cmd.Wait(); err != nil {
			t.Errorf("the new server: %v", err)
		}
	} else if code := status.Code(err); code != codes.Unavailable && code != codes.DeadlineExceeded {
		t.Errorf("without a server: got %v, want that it is unavailable", err)
	}
	n := o.Rec.Counts()[phase.Retries]
	check.That(t, n >= 1 && n < attempts, "%d retries", n)
	check.OK(t, w.Close())
}
