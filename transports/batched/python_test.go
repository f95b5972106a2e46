package batched

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/internal/test/waiting"
	"ipcbench/python"
	"ipcbench/transports/driver"
	"ipcbench/transports/driver/drivertest"
	"ipcbench/transports/endpoint"
)

// TestPython: O25. A collaborator in another language takes part with only the .proto file
// and the address file. It fetches with all three methods and sends results.
//
// O21: with mutual TLS it takes part with a certificate for its lane, and is refused with
// another lane's certificate or without one. O4: each refusal has its own reason.
func TestPython(t *testing.T) {
	skip.Long(t)
	if _, err := exec.LookPath("protoc"); err != nil {
		skip.Missing(t, "protoc (Debian: protobuf-compiler)")
	}
	interpreter, err := python.Find(t.Context(), "", python.Grpc(), python.Protobuf())
	if err != nil {
		skip.Missing(t, "%v", err)
	}
	dir := t.TempDir()
	out, err := exec.CommandContext(waiting.Context(t), "protoc", "--python_out="+dir, "--proto_path=.", "federation.proto").CombinedOutput()
	check.Need(t, err == nil, "protoc: %v\n%s", err, out)
	for _, c := range []struct {
		settings string
		shows    []int  // lanes in its certificate
		refusal  string // expected refusal, or empty
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
			r := listen(t, "grpc-stream:chunk=64KiB:"+c.settings, everyKind(t), 2)
			r.dispatch(0, driver.Job{Round: 5, Client: 1})
			out, err := r.collaborator(c.shows, interpreter.Path, filepath.Join("testdata", "collaborator.py"), dir)
			check.Need(t, (c.refusal == "") == (err == nil), "got error %v\n%s", err, out)
			for text := range strings.SplitSeq(c.refusal, "|") {
				check.That(t, strings.Contains(out, text), "got %q, want %q in it", out, text)
			}
			if c.refusal != "" {
				return
			}
			p := r.collect()
			defer p.Release()
			check.Equal(t, string(p.Receipt), "from python")
			for i := range p.Len() { // the collaborator sends every tensor reversed
				got := slices.Clone(p.View(i))
				slices.Reverse(got)
				check.That(t, bytes.Equal(got, r.Model.View(i)), "tensor %s differs", r.Options.Up.Spec(i).Name)
			}
		})
	}
}

// collaborator runs one in Python on lane 0. If lanes is not empty, it has a certificate of
// the session for them.
func (r *rig) collaborator(lanes []int, path string, args ...string) (output string, err error) {
	t := r.T.(*testing.T)
	t.Helper()
	var names []string
	for i := range r.Options.Down.Len() {
		names = append(names, r.Options.Down.Spec(i).Name)
	}
	says := map[string]any{"address": filepath.Join(r.Dir, endpoint.AddressFile), "tensors": names}
	if r.Variant.Settings.Get("tls") != "off" {
		says["ca"] = filepath.Join(r.Dir, endpoint.AuthorityFile)
	}
	if len(lanes) > 0 {
		says["certificate"], says["key"] = drivertest.Files(t, drivertest.Certified(t, r.Endpoint, lanes...))
	}
	text := check.Value(json.Marshal(says))(t)
	out, err := exec.CommandContext(waiting.Context(t), path, append(args, string(text))...).CombinedOutput()
	return string(out), err
}
