package batched

import (
	"context"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"testing"

	"ipcbench/internal/skip"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
)

// TestPython: O25. A collaborator in another language, made of nothing but the
// .proto file and the file with the address, takes part: it fetches over all three
// methods and sends results.
func TestPython(t *testing.T) {
	python := pythonWithGRPC(t)
	for _, network := range []string{"unix", "tcp"} {
		t.Run(network, func(t *testing.T) { testPython(t, python, network) })
	}
}

func testPython(t *testing.T, python, network string) {
	l := everyKind(t)
	r := listen(t, "grpc-stream:chunk=64KiB:network="+network, l, 1)
	r.dispatch(0, driver.Job{Round: 5, Client: 1})

	dir := t.TempDir()
	specs, err := json.Marshal(map[string]any{
		"address": filepath.Join(r.dir, driver.AddressFile), "tensors": names(l),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, args := range [][]string{
		{"protoc", "--python_out=" + dir, "--proto_path=.", "federation.proto"},
		{python, filepath.Join("testdata", "collaborator.py"), dir, string(specs)},
	} {
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", args[0], err, out)
		}
	}
	p, err := r.session.Collect(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Release()
	if string(p.Receipt) != "from python" {
		t.Errorf("got receipt %q", p.Receipt)
	}
	for i := range l.Len() { // it sends every tensor reversed
		got, want := p.View(i), r.model.View(i)
		for k := range got {
			if got[k] != want[len(want)-1-k] {
				t.Fatalf("tensor %s: byte %d is %02x, want %02x", l.Spec(i).Name, k, got[k], want[len(want)-1-k])
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
	for _, python := range []string{"/usr/bin/python3", "python3"} {
		if exec.Command(python, "-c", "import grpc, google.protobuf").Run() == nil {
			return python
		}
	}
	skip.Missing(t, "a Python with grpcio (Debian: python3-grpcio, python3-protobuf)")
	return ""
}

func names(l *tensor.Layout) []string {
	var all []string
	for i := range l.Len() {
		all = append(all, l.Spec(i).Name)
	}
	return all
}
