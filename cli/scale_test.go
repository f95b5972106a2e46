package cli

import (
	"encoding/csv"
	"path/filepath"
	"strings"
	"testing"
)

// TestSoakCollaborators: O9: 200 collaborators with 1,000 tensors each finish, with
// exactly the calls that they need; results/README.md has what it costs them.
func TestSoakCollaborators(t *testing.T) {
	exe := built(t)
	out := output(t, exe, "run", "-q", "--transport", "grpc-tensor:threads=8,grpc-batch:threads=8,grpc-stream:threads=8",
		"--model", "uniform:4MiB/1000", "--workers", "200", "--clients", "200", "--lanes-per-process", "50",
		"--rounds", "2", "--blocks", "1", "--format", "csv", "--out", filepath.Join(t.TempDir(), "result.json"))
	rows, err := csv.NewReader(strings.NewReader(string(out))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string]string{}
	for _, row := range rows {
		if row[5] == "rpcs" {
			calls[row[0]] = row[8]
		}
	}
	// A task and a result each, and the model: a call a tensor, or one.
	for name, want := range map[string]string{"grpc-tensor": "200400", "grpc-batch": "600", "grpc-stream": "600"} {
		if calls[name] != want {
			t.Errorf("%s made %s calls a round, want %s", name, calls[name], want)
		}
	}
}
