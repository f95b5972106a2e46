package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"ipcbench/internal/skip"
	"ipcbench/python"
	"ipcbench/scratch"
)

// fromPages are the clients that were written from docs/protocol.md, and what each says
// of who is refused.
var fromPages = []struct {
	transport, file       string
	secret, digest, taken string
}{
	{"grpc-stream", "grpc_client.py", "UNAUTHENTICATED", "FAILED_PRECONDITION", "ALREADY_EXISTS: lane-0 has or had another worker"},
	{"http", "http_client.py", "Authorization: Bearer", "the worker's layouts are", "lane 0: the lane has a worker"},
	{"http-shm", "http_shm_client.py", "", "", ""}, // as http does
	{"shm-slab", "slab_client.py", "the server has hung up", "the layouts are", "lane 0 has or had a worker"},
}

// TestServe: clients in another language, made of the pages alone, take part in
// whole sessions, all with the same models. Who shows no secret, means other tensors, or
// comes second is refused, and it is not the session's end.
func TestServe(t *testing.T) {
	t.Parallel()
	py, hashes := withGRPC(t), make([]string, len(fromPages))
	t.Run("all", func(t *testing.T) {
		for i, c := range fromPages {
			t.Run(c.transport, func(t *testing.T) {
				t.Parallel()
				s := serving(t, py, "--transport", c.transport, "--workers", "2", "--clients", "3", "--rounds", "2")
				first := s.client(c.file, s.file, 0, "")
				if c.secret != "" {
					secret := s.write(t, "secret", s.contact["address"].(string)+"#"+strings.Repeat("A", 26))
					s.refuses(t, c.file, s.altered(t, "address_file", secret), c.secret)
					s.refuses(t, c.file, s.altered(t, "digest", "0123456789abcdef"), c.digest)
					first = s.client(c.file, s.file, 0, s.before(fmt.Sprintf("open(%q, 'w')\nwhile not os.path.exists(%q): time.sleep(0.002)", s.path("here"), s.path("go"))))
				}
				first.Stderr = os.Stderr
				if err := first.Start(); err != nil {
					t.Fatal(err)
				}
				if c.secret != "" { // the first one has a job in hand until another one was refused its lane
					s.await(t, "here")
					s.refuses(t, c.file, s.file, c.taken)
					s.write(t, "go", "")
				}
				if out, err := s.client(c.file, s.file, 1, "").CombinedOutput(); err != nil { // which comes late
					t.Errorf("lane 1: %v %s", err, out)
				}
				if err := first.Wait(); err != nil {
					t.Errorf("lane 0: %v", err)
				}
				s.ends(t, 0, "^$")
				var got struct{ Result served }
				if err := json.Unmarshal([]byte(s.last), &got); err != nil || got.Result.Rounds != 2 || got.Result.Updates != 6 || got.Result.Times == nil {
					t.Errorf("got %v %s", err, s.last)
				}
				hashes[i] = got.Result.Hash
			})
		}
	})
	for i, h := range hashes {
		if h != hashes[0] {
			t.Errorf("%s: the last model is %s, and with %s %s", fromPages[i].transport, h, fromPages[0].transport, hashes[0])
		}
	}
}

// TestServeFaults: a client that is wrong, leaves, hangs or talks nonsense ends the
// session with an error that says so, and nothing is left behind. So does Ctrl-C.
func TestServeFaults(t *testing.T) {
	t.Parallel()
	py := withGRPC(t)
	const flipped = `update = list(train(*a))
update[1] = update[1][:21] + bytes([update[1][21] ^ 1]) + update[1][22:]
return update`
	const wrong = `: round 0, client 0, lane 0: the update is wrong: tensor 1 \("tensor.1" f32 \[85\]\): bytes 16 to 24 are \w+, want \w+: element 5\n$`
	const lost, late = "round 0, client 0: the worker's connection was lost", "round 0, client 0: no update came within 300ms: none ever did on this lane: has a client joined it\\?\nhint: --wait"
	for _, c := range []struct{ transport, file, name, does, wait, want, says string }{
		{"grpc-stream", "grpc_client.py", "wrong bit", flipped, "2m", wrong, ""},
		{"http", "http_client.py", "wrong bit", flipped, "2m", wrong, ""},
		{"http-shm", "http_shm_client.py", "wrong bit", flipped, "2m", wrong, ""},
		{"shm-slab", "slab_client.py", "wrong bit", flipped, "2m", wrong, ""},
		{"grpc-stream", "grpc_client.py", "leaves", "os._exit(0)", "300ms", late, ""}, // it may come back
		{"http", "http_client.py", "leaves", "os._exit(0)", "2m", lost, ""},
		{"shm-slab", "slab_client.py", "leaves", "os._exit(0)", "2m", "round 0, client 0: the peer is gone", ""},
		{"http", "http_client.py", "hangs", "time.sleep(60)", "300ms", late, ""},
		{"shm-slab", "slab_client.py", "hangs", "time.sleep(60)", "300ms", late, ""},
		{"grpc-stream", "grpc_client.py", "garbage", "return [b'x']", "2m", "(?s)round 0, client 0: .*DATA_LOSS", "DATA_LOSS: 0 of 3 tensors came"},
		{"http", "http_client.py", "garbage", "return [b'x']", "2m", lost, "body of 1"},
		{"grpc-stream", "grpc_client.py", "raises", "raise ValueError('no data')", "2m", "round 0, client 0: ValueError\\('no data'\\)", "ValueError"},
	} {
		t.Run(c.transport+"/"+c.name, func(t *testing.T) {
			t.Parallel()
			s := serving(t, py, "--transport", c.transport, "--wait", c.wait, "--model", "uniform:1KiB/3")
			client := s.client(c.file, s.file, 0, s.before(c.does))
			var out bytes.Buffer
			client.Stdout, client.Stderr = &out, &out
			if err := client.Start(); err != nil {
				t.Fatal(err)
			}
			s.ends(t, 1, c.want)
			if c.name == "hangs" {
				_ = client.Process.Kill() // it has not ended
			}
			_ = client.Wait() // what it says is looked at
			if !strings.Contains(out.String(), c.says) {
				t.Errorf("the client says %s, want %q", &out, c.says)
			}
		})
	}
	t.Run("Ctrl-C", func(t *testing.T) {
		t.Parallel()
		s := serving(t, py, "--transport", "shm-slab")
		if err := s.cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		s.ends(t, 130, "interrupted by SIGINT\n$")
	})
}

// A server is ipcbench serve, and what its first line says.
type server struct {
	cmd     *exec.Cmd
	py      interpreter
	stderr  bytes.Buffer
	dir     string // for temporary files of it all
	file    string // of the contact
	contact map[string]any
	last    string // line, once it has ended
	lines   *bufio.Scanner
}

// serving starts ipcbench serve. A round that should end waits long for clients: several
// interpreters start before the first one does.
func serving(t *testing.T, py interpreter, args ...string) *server {
	t.Helper()
	path, err := exec.LookPath("ipcbench")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{py: py, dir: shortDir(t)}
	s.cmd = exec.CommandContext(t.Context(), path, append([]string{"serve", "--json", "--model", "uniform:4KiB/3", "--wait", "2m"}, args...)...)
	s.cmd.Env, s.cmd.Stderr = append(os.Environ(), "TMPDIR="+s.dir), &s.stderr
	out, err := s.cmd.StdoutPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	s.lines = bufio.NewScanner(out)
	if !s.lines.Scan() {
		_ = s.cmd.Wait()
		t.Fatalf("no contact: %s", &s.stderr)
	}
	var line struct{ Contact map[string]any }
	if err := json.Unmarshal(s.lines.Bytes(), &line); err != nil {
		t.Fatal(err)
	}
	s.contact = line.Contact
	s.file = s.write(t, "contact", s.lines.Text())
	return s
}

func (s *server) path(name string) string { return filepath.Join(s.dir, name) }

// await waits for a file.
func (s *server) await(t *testing.T, name string) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-time.After(2 * time.Millisecond) {
		if _, err := os.Stat(s.path(name)); err == nil {
			return
		}
	}
	t.Fatalf("%s never came", name)
}

// refuses has a client for lane 0 try to take part, in vain.
func (s *server) refuses(t *testing.T, file, contact, want string) {
	t.Helper()
	out, err := s.client(file, contact, 0, "").CombinedOutput()
	if err == nil || !strings.Contains(string(out), want) {
		t.Errorf("with %s: got %v %s, want %q", filepath.Base(contact), err, out, want)
	}
}

func (s *server) write(t *testing.T, name, text string) string {
	t.Helper()
	path := s.path(name)
	if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// altered returns a file with another contact.
func (s *server) altered(t *testing.T, key, value string) string {
	t.Helper()
	other := maps.Clone(s.contact)
	other[key] = value
	text, err := json.Marshal(map[string]any{"contact": other})
	if err != nil {
		t.Fatal(err)
	}
	return s.write(t, key, string(text))
}

// before returns what has a client do something in place of its training, or before
// it: lines that return nothing are followed by that.
func (s *server) before(does string) string {
	return "train = worker.train\ndef instead(*a):\n    " + strings.ReplaceAll(does, "\n", "\n    ") + "\n    return train(*a)\nworker.train = instead"
}

// client returns a client for a lane. The prelude runs before it, and may change worker.
func (s *server) client(file, contact string, lane int, prelude string) *exec.Cmd {
	run := strings.Join([]string{"import os, runpy, sys, time", "import worker", prelude, "runpy.run_path(sys.argv[0], run_name='__main__')"}, "\n")
	return s.py.command("import sys; sys.argv = sys.argv[1:]\n"+run, filepath.Join(clients, file), contact, fmt.Sprint(lane))
}

// ends waits for the server, which must end with a code, and say what matches on
// stderr, and leave nothing.
func (s *server) ends(t *testing.T, code int, want string) {
	t.Helper()
	for s.lines.Scan() {
		s.last = s.lines.Text()
	}
	_ = s.cmd.Wait() // its code is looked at
	if got := s.cmd.ProcessState.ExitCode(); got != code || !regexp.MustCompile(want).Match(s.stderr.Bytes()) {
		t.Errorf("exit code %d, want %d, and to match %q:\n%s", got, code, want, &s.stderr)
	}
	if left, _ := filepath.Glob(filepath.Join(s.dir, "ipcbench-*")); len(left) > 0 { // the pattern is well-formed
		t.Errorf("left: %v", left)
	}
	shared, err := scratch.Leftovers(scratch.SharedMemory)
	if err != nil {
		t.Error(err)
	}
	for _, l := range shared {
		if l.PID == s.cmd.Process.Pid {
			t.Errorf("left: %s", l.Path)
		}
	}
}

// clients is the folder of the clients.
const clients = "../examples/client"

// An interpreter is a Python with grpcio, and a folder of generated stubs.
type interpreter struct{ path, stubs string }

func withGRPC(t *testing.T) interpreter {
	t.Helper()
	found, err := python.Find(t.Context(), "", python.Grpc(), python.Protobuf())
	if err != nil {
		skip.Missing(t, "%v", err)
	}
	if _, err := exec.LookPath("protoc"); err != nil {
		skip.Missing(t, "protoc (Debian: protobuf-compiler)")
	}
	py := interpreter{found.Path, t.TempDir()}
	const proto = "../transports/batched"
	if out, err := exec.Command("protoc", "--python_out="+py.stubs, "--proto_path="+proto, "federation.proto").CombinedOutput(); err != nil {
		t.Fatalf("protoc: %v\n%s", err, out)
	}
	return py
}

// command returns a program with its arguments.
func (py interpreter) command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(py.path, append([]string{"-c", program}, args...)...)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH="+clients+":"+py.stubs)
	return cmd
}
