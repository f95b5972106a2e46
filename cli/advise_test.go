package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ipcbench/bench"
	"ipcbench/machine"
	"ipcbench/transports/all"
)

// TestAdviseFrom: results of this machine are taken, those of another one are refused, and
// of two in any case. An answer takes less than a second.
func TestAdviseFrom(t *testing.T) {
	r, err := bench.ReadFile("../results/models.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name string, of machine.Environment) string {
		r.Environment = of
		path := filepath.Join(dir, name)
		if err := r.WriteFile(path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	env := machine.Read()
	here := write("here.json", env)
	env.Go, env.Listen = "go1.1", machine.OffLoopback // another run
	again := write("again.json", env)
	env.CPU = "Z80"
	other := write("other.json", env)
	env.CPU = "6502"
	third := write("third.json", env)
	for _, test := range []struct {
		args string
		code int
		want string
	}{
		{"--workers 1 --from " + here, 0, ""},
		{"--workers 1 --from " + here + "," + again, 0, ""},
		{"--workers 1 --from " + here + " " + again, 0, ""}, // as a shell leaves *.json
		{"--from " + other, 2, "--from " + other + ": a result of another machine: CPU model: Z80 there"},
		{"--from " + other + " --foreign --workers 1", 0, ""},
		{"--from " + other + "," + here + " --foreign", 2, "two machines, and an advice is for one: CPU model: Z80 and "},
		{"--from " + other + "," + third + " --foreign", 2, "CPU model: Z80 and 6502"},
		{"--from " + here + "," + other, 2, "two machines"},
		{"--from " + here + " --transport http --codec none,sparse --workers 2", 0, ""},
	} {
		var out, stderr bytes.Buffer
		args := append([]string{"advise", "--model", "resnet18", "--clients", "1", "--format", "json"}, strings.Fields(test.args)...)
		code := newApp(&out, &stderr, all.Transports()).main(args)
		if code != test.code || !strings.Contains(stderr.String(), test.want) || test.code == 0 && stderr.Len() > 0 {
			t.Errorf("%s: exit code %d: %s", test.args, code, stderr.String())
			continue
		}
		var advice struct {
			Transports []struct{ Transport string }
			Refused    []struct{ Transport, Why string }
			Verify     string
		}
		if code != 0 {
			continue
		}
		if err := json.Unmarshal(out.Bytes(), &advice); err != nil {
			t.Fatalf("%v: %s", err, out.String())
		}
		ranked := len(advice.Transports)
		switch {
		case ranked == 0 || !strings.Contains(advice.Verify, " run --quick --transport "+advice.Transports[0].Transport):
			t.Errorf("%s: %s", test.args, out.String())
		case strings.Contains(test.args, "sparse") && (ranked != 1 || len(advice.Refused) != 1 || !strings.Contains(advice.Refused[0].Why, "choose --workers 1")):
			t.Errorf("%s: %+v", test.args, advice)
		}
	}
}

// TestVerifyCommand: the command that verifies an advice measures those very cells.
func TestVerifyCommand(t *testing.T) {
	a := newApp(io.Discard, io.Discard, all.Transports())
	odd := filepath.Join(t.TempDir(), "it's a folder")
	if err := os.Mkdir(odd, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, set := range []func(*cellFlags){
		func(f *cellFlags) {},
		func(f *cellFlags) {
			f.transports, f.models, f.ups = []string{"http:body=json", "shm-slab:wait=spin"}, []string{"resnet50"}, []string{"lora:4"}
		},
		func(f *cellFlags) {
			f.transports, f.links = []string{"http", "shm-slab", "grpc-stream"}, []string{"1Gbit"}
		},
		func(f *cellFlags) {
			f.transports, f.links = []string{"pickle", "shm-slab", "http"}, []string{"100Mbit"}
		},
		func(f *cellFlags) {
			f.codecs, f.changes, f.values = []string{"none", "xor+shuffle+zstd", "topk=1%+sparse"}, []string{"2%/rows"}, "normal"
		},
		func(f *cellFlags) { f.tls, f.transports = "mutual", []string{"all", "-storage"} },
		func(f *cellFlags) { f.transports = []string{"storage:dir=" + odd, "http"} },
	} {
		f := adviseFlags{cellFlags: defaults()}
		f.models = []string{"like:resnet50:2MB/30"}
		set(&f.cellFlags)
		cells, err := f.asked(a)
		if err != nil {
			t.Fatal(err)
		}
		line := verifying(cells[:2])
		text, err := exec.Command("sh", "-c", `printf '%s\n' `+line).Output()
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		args := strings.Split(strings.TrimSpace(string(text)), "\n")
		var out, stderr bytes.Buffer
		if code := newApp(&out, &stderr, all.Transports()).main(append(args[1:], "--dry-run")); code != 0 {
			t.Errorf("%s: %s", line, stderr.String())
		}
		for _, c := range cells[:2] {
			if !strings.Contains(out.String(), "#   "+c.String()+" ") {
				t.Errorf("%s does not measure %s:\n%s", line, c, out.String())
			}
		}
		if got := strings.Count(out.String(), " blocks of about "); got != 3 { // and the control
			t.Errorf("%s measures %d cells:\n%s", line, got, out.String())
		}
	}
}
