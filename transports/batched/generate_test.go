package batched

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
)

// TestGenerated: the committed code is what federation.proto says.
func TestGenerated(t *testing.T) {
	version, err := exec.Command("protoc", "--version").Output()
	if err != nil || !strings.HasPrefix(string(version), "libprotoc 3.21.") {
		skip.Missing(t, "protoc 3.21 (Debian: protobuf-compiler): %s %v", version, err)
	}
	dir := t.TempDir()
	if out, err := exec.Command("./generate.sh", dir).CombinedOutput(); err != nil {
		t.Fatalf("generate.sh: %v\n%s", err, out)
	}
	for name, folder := range map[string]string{
		"federation.pb.go": "federationpb", "federation_grpc.pb.go": "federationpb",
		"federation_pb2.py": "../../python/ipcbench_worker",
	} {
		want, err := os.ReadFile(filepath.Join(dir, name))
		check.Must(t, err)
		got, err := os.ReadFile(filepath.Join(folder, name))
		check.Must(t, err)
		check.That(t, bytes.Equal(got, want), "%s/%s is out of date: run make generate", folder, name)
	}
}
