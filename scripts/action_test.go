package scripts

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
)

// metadata has the parts of action.yml that tests read.
type metadata struct {
	Inputs map[string]struct{ Default *string }
	Runs   struct {
		Using string
		Steps []struct {
			Run string
			Env map[string]string
		}
	}
}

// TestActionInputs: every input of action.yml reaches the shell as a variable, none through
// an expression in its text, and the program and its digest have no default.
func TestActionInputs(t *testing.T) {
	var m metadata
	check.Must(t, yaml.Unmarshal(check.Value(os.ReadFile("../action.yml"))(t), &m))
	check.Need(t, m.Runs.Using == "composite" && len(m.Runs.Steps) == 1, "%+v", m)
	step := m.Runs.Steps[0]
	check.Equal(t, step.Run, script) // so it has no expression
	check.Equal(t, len(step.Env), len(m.Inputs))
	for name, input := range m.Inputs {
		check.Equal(t, step.Env[strings.ToUpper(strings.ReplaceAll(name, "-", "_"))], "${{ inputs."+name+" }}", name)
		check.That(t, input.Default == nil || name == "allow-commands" || name == "strict", "%s has a default", name)
	}
}

const script = `"$GITHUB_ACTION_PATH"/scripts/action`

// workspace returns a folder with the program, and with the folders base and head, which have
// the peer of examples/ci. In head it is changed.
func workspace(t *testing.T, c change) (dir string) {
	t.Helper()
	skip.Long(t)
	if _, err := exec.LookPath("curl"); err != nil {
		skip.Missing(t, "curl (Debian: curl)")
	}
	dir = t.TempDir()
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", dir+"/program", "../cmd/ipcbench").CombinedOutput()
	check.Need(t, err == nil, "%v\n%s", err, out)
	peer := read(t, "../examples/ci/peer.py")
	check.Need(t, strings.Contains(peer, c.old), "%q is not in the peer", c.old)
	write(t, dir+"/base/bench/peer.py", peer)
	write(t, dir+"/head/bench/peer.py", strings.Replace(peer, c.old, c.new, 1))
	write(t, dir+"/ipcbench.yaml", strings.Replace(read(t, "../examples/ci/ipcbench.yaml"), "canary: 20%", "canary: 100%", 1)) // for TestActionGate
	return dir
}

func read(t *testing.T, path string) string { return string(check.Value(os.ReadFile(path))(t)) }

func write(t *testing.T, path, text string) {
	t.Helper()
	check.Must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	check.Must(t, os.WriteFile(path, []byte(text), 0o600))
}

// act runs the step as a runner does, with these variables, which replace the usual ones. It
// returns the exit code, the log, and the summary followed by the outputs.
func act(t *testing.T, dir string, variables ...string) (code int, log, written string) {
	t.Helper()
	tmp := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "BINARY=program", "URL=", "SHA256=", "SETTINGS=ipcbench.yaml", "FAIL_ABOVE=5%", "ALLOW_COMMANDS=true", "STRICT=false",
		"GITHUB_EVENT_NAME=pull_request", "RUNNER_TEMP="+tmp, "GITHUB_STEP_SUMMARY="+tmp+"/summary", "GITHUB_OUTPUT="+tmp+"/outputs", "GITHUB_ACTION_PATH="+filepath.Dir(check.Value(os.Getwd())(t)))
	cmd.Env = append(cmd.Env, variables...)
	write(t, tmp+"/summary", "")
	write(t, tmp+"/outputs", "")
	out, err := cmd.CombinedOutput()
	exit := new(exec.ExitError)
	check.Need(t, err == nil || errors.As(err, &exit), "%v", err)
	left := check.Value(filepath.Glob(tmp + "/*/ipcbench"))(t)
	check.That(t, len(left) == 0, "the program is left in %v", left)
	return cmd.ProcessState.ExitCode(), string(out), read(t, tmp+"/summary") + read(t, tmp+"/outputs")
}

// TestActionRefuses: mistakes, privileged events and a program with another digest end with
// exit code 2 before the program is executed, which says that a file is missing.
func TestActionRefuses(t *testing.T) {
	dir := workspace(t, change{})
	program := []byte(read(t, dir+"/program"))
	sum := sha256.Sum256(program)
	digest, wrong, executed := hex.EncodeToString(sum[:]), strings.Repeat("0", 64), "--config missing: no such file"
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write(program) }))
	defer plain.Close()
	secure := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/plain" {
			http.Redirect(w, r, plain.URL, http.StatusFound)
		}
		_, _ = w.Write(program)
	}))
	defer secure.Close()
	write(t, dir+"/ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})))
	t.Setenv("CURL_CA_BUNDLE", "ca.pem")
	t.Setenv("no_proxy", "127.0.0.1")
	for _, test := range []struct {
		inputs string // separated by spaces
		code   int
		log    string
	}{
		{"", 2, executed},
		{"SHA256=" + digest, 2, executed},
		{"SHA256=" + wrong, 2, "::error::ipcbench: the program has the sha256 " + digest + ", not " + wrong},
		{"BINARY= URL=" + secure.URL + " SHA256=" + strings.ToUpper(digest), 2, executed},
		{"BINARY= URL=" + secure.URL + " SHA256=" + wrong, 2, "::error::ipcbench: the program has the sha256 " + digest + ", not " + wrong},
		{"BINARY= URL=" + secure.URL + "/plain SHA256=" + digest, 1, "why url could not be downloaded"},
		{"BINARY= URL=" + plain.URL + " SHA256=" + digest, 2, "url must begin with https://"},
		{"BINARY= URL=" + secure.URL, 2, "sha256 must be 64"},
		{"URL=" + secure.URL + " SHA256=" + digest, 2, "not both"},
		{"BINARY=", 2, "give binary or url"},
		{"BINARY=base", 2, "base is not a file"},
		{"STRICT=1", 2, "must be true or false, not 1"},
		{"ALLOW_COMMANDS=%0A\n::add-mask::b", 2, "::error::ipcbench: allow-commands and strict must be true or false, not %250A%0A::add-mask::b\n"},
		{"SETTINGS=", 2, "give settings"},
		{"GITHUB_EVENT_NAME=pull_request_target", 2, "use pull_request"},
		{"GITHUB_EVENT_NAME=workflow_run", 2, "use pull_request"},
		{"SETTINGS=ipcbench.yaml ALLOW_COMMANDS=false", 2, "peer: runs a program, so it needs --allow-commands"},
	} {
		code, log, _ := act(t, dir, append([]string{"SETTINGS=missing"}, strings.Split(test.inputs, " ")...)...)
		check.That(t, code == test.code && strings.Contains(log, test.log) && strings.Contains(log, executed) == (test.log == executed),
			"%s: exits with %d, want %d and %q:\n%s", test.inputs, code, test.code, test.log, log)
	}
}

// TestActionLog: workflow commands that a peer prints are between markers, so the runner
// ignores them. The peer cannot name the runner's files, and the failure is in the summary.
func TestActionLog(t *testing.T) {
	dir := workspace(t, change{})
	write(t, dir+"/hostile.py", "import os\nos.write(2, b'\\n::add-mask::x\\n%r' % ('GITHUB_OUTPUT' in os.environ))\nos._exit(1)\n")
	write(t, dir+"/hostile.yaml", "peer: mine=/usr/bin/python3 hostile.py\ntransport: shm-slab\nmodel: cnn\nquick: true\n")
	code, log, written := act(t, dir, "SETTINGS=hostile.yaml")
	parts := regexp.MustCompile(`(?s)\A::stop-commands::([0-9a-f]{32})\n(.*)\n::([0-9a-f]{32})::\n(.*)\z`).FindStringSubmatch(log)
	check.Need(t, code == 1 && parts != nil && parts[1] == parts[3], "exits with %d:\n%s", code, log)
	check.That(t, strings.Contains(parts[2], "::add-mask::x") && strings.Contains(parts[2], "False"), "the log is not the peer's:\n%s", log)
	check.Equal(t, parts[4], "::error::ipcbench: exit code 1: see the summary and the log\n")
	check.That(t, strings.HasPrefix(written, "**Not compared: the measurement failed** with exit code 1.") && strings.Contains(written, "\ncode=1\n"), "%s", written)
}

// TestActionUnjudged: if the gate cannot judge, the step warns, and fails only if it is strict.
func TestActionUnjudged(t *testing.T) {
	dir := workspace(t, change{})
	write(t, dir+"/few.yaml", "against: ./program\ntransport: shm-slab\nmodel: uniform:1KiB/1\nworkers: 1\nclients: 1\nrounds: 3\nblocks: 2\n")
	for strict, want := range map[string]struct {
		code int
		log  string
	}{"false": {0, "\n::warning::ipcbench: the gate cannot judge"}, "true": {4, "\n::error::ipcbench: exit code 4"}} {
		code, log, written := act(t, dir, "SETTINGS=few.yaml", "STRICT="+strict)
		check.That(t, code == want.code && strings.Contains(log, want.log) && strings.Contains(written, "\ncode=4\n"), "strict %s: exits with %d:\n%s\n%s", strict, code, log, written)
	}
}

// TestActionGate: a peer that sleeps ten times a round in every round fails the step with exit
// code 3. A changed comment does not: the gate passes, or cannot judge. Changes below 50 % do not count here, because one
// run in forty shows such a change by chance, and more on a busy machine.
func TestActionGate(t *testing.T) {
	slower := `    def publish(self, model):
        self.model, self.began = model, __import__("time").monotonic()

    def finish(self):
        __import__("time").sleep(10 * (__import__("time").monotonic() - self.began))

`
	for codes, c := range map[string]change{"3": {old: "    def dispatch(", new: slower + "    def dispatch("}, "0 4": {old: "# Arrays become", new: "# All arrays become"}} {
		code, log, written := act(t, workspace(t, c), "FAIL_ABOVE=50%")
		parts := regexp.MustCompile(`(?s)(.*)\ncode=(.)\n.*\npage=(.*)\n`).FindStringSubmatch(written)
		check.Need(t, parts != nil && strings.Contains(codes, parts[2]) && (code == 3) == (codes == "3") && strings.Contains(log, "::warning::") == (parts[2] == "4"),
			"want %s; exits with %d:\n%s\n%s", codes, code, log, written)
		check.OK(t, check.Err(os.Stat(parts[3])))
	}
}
