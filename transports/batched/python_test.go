package batched

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/python"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
	"ipcbench/transports/driver/drivertest"
)

// TestPython: O25. A collaborator in another language, made of nothing but the
// .proto file and the file with the address, takes part: it fetches over all three
// methods and sends results.
//
// O21: with mutual TLS it takes part with a certificate for its lane, and is refused
// with another lane's, or without; O4, by a reason of its own.
func TestPython(t *testing.T) {
	skip.Long(t)
	interpreter, dir := pythonWithGRPC(t), t.TempDir()
	if out, err := exec.CommandContext(limited(t), "protoc", "--python_out="+dir, "--proto_path=.", "federation.proto").CombinedOutput(); err != nil {
		t.Fatalf("protoc: %v\n%s", err, out)
	}
	for _, c := range []struct {
		settings string
		shows    []int  // lanes of its certificate
		refusal  string // if it is to be refused
	}{
		{"network=unix", nil, ""},
		{"network=tcp", nil, ""},
		{"network=unix:tls=mutual", []int{0}, ""},
		{"network=tcp:tls=on", nil, ""},
		{"network=tcp:tls=mutual", []int{0}, ""},
		{"network=tcp:tls=mutual", []int{1}, "PERMISSION_DENIED|WRONG_CERTIFICATE|lane-0"},
		{"network=tcp:tls=mutual", nil, "UNAVAILABLE"},
	} {
		t.Run(fmt.Sprint(c.settings, c.shows), func(t *testing.T) {
			p := &collaborator{listen(t, "grpc-stream:chunk=64KiB:"+c.settings, everyKind(t), 2), interpreter, dir}
			out, err := p.run(c.shows)
			check.That(t, (c.refusal != "" || err == nil) && (c.refusal == "" || err != nil), "got error %v\n%s", err, out)
			for text := range strings.SplitSeq(c.refusal, "|") {
				check.That(t, strings.Contains(out, text), "got %q, want %q in it", out, text)
			}
			if c.refusal == "" {
				p.sent()
			}
		})
	}
}

// A collaborator is one in Python, on lane 0 of a session.
type collaborator struct {
	*rig
	python, dir string
}

// run has it take part, with a certificate of the session for these lanes, if any.
func (c *collaborator) run(lanes []int) (output string, err error) {
	c.t.Helper()
	c.dispatch(0, driver.Job{Round: 5, Client: 1})
	says := map[string]any{"address": filepath.Join(c.rig.dir, driver.AddressFile), "tensors": names(c.o.Down)}
	if _, err := os.Stat(filepath.Join(c.rig.dir, driver.AuthorityFile)); err == nil {
		says["ca"] = filepath.Join(c.rig.dir, driver.AuthorityFile)
	}
	if len(lanes) > 0 {
		says["certificate"], says["key"] = drivertest.Files(c.t, drivertest.Certified(c.t, c.at, lanes...))
	}
	text, err := json.Marshal(says)
	check.Must(c.t, err)
	out, err := exec.CommandContext(limited(c.t), c.python, filepath.Join("testdata", "collaborator.py"), c.dir, string(text)).CombinedOutput()
	return string(out), err
}

// sent checks what has come from it.
func (c *collaborator) sent() {
	c.t.Helper()
	p, err := c.session.Collect(limited(c.t), 0)
	check.Must(c.t, err)
	defer p.Release()
	check.That(c.t, string(p.Receipt) == "from python", "got receipt %q", p.Receipt)
	for i := range p.Len() { // it sends every tensor reversed
		got, want := p.View(i), c.model.View(i)
		for k := range got {
			if got[k] != want[len(want)-1-k] {
				c.t.Fatalf("tensor %s: byte %d is %02x, want %02x", c.o.Up.Spec(i).Name, k, got[k], want[len(want)-1-k])
			}
		}
	}
}

// pythonWithGRPC returns a Python that has grpcio, and ends the test if there is
// none, or no protoc.
func pythonWithGRPC(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("protoc"); err != nil {
		skip.Missing(t, "protoc (Debian: protobuf-compiler)")
	}
	found, err := python.Find(t.Context(), "", python.Grpc(), python.Protobuf())
	if err != nil {
		skip.Missing(t, "%v", err)
	}
	return found.Path
}

func names(l *tensor.Layout) []string {
	var all []string
	for i := range l.Len() {
		all = append(all, l.Spec(i).Name)
	}
	return all
}
