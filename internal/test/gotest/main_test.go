package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"ipcbench/internal/test/check"
)

// TestGotest: packages have go test's own closing lines, failed tests have all of their
// output, passed tests none, and skipped tests are counted.
func TestGotest(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":          "module m\n",
		"good/a_test.go":  "package a\nimport \"testing\"\nfunc TestSkip(t *testing.T) { t.Run(\"sub\", func(t *testing.T) { t.Skip(\"the kernel refuses mounts\") }) }\nfunc TestTool(t *testing.T) { t.Skip(\"not installed: a tool\\nsays it\") }\nfunc TestOther(t *testing.T) { t.Skip(\"too slow\") }\nfunc TestGood(t *testing.T) { t.Log(\"chatter\") }\n",
		"bad/b_test.go":   "package b\nimport \"testing\"\nfunc TestBad(t *testing.T) { t.Error(\"reason\") }\nfunc TestGood(t *testing.T) { t.Log(\"chatter\") }\n",
		"crash/c_test.go": "package c\nimport \"testing\"\nfunc TestCrash(t *testing.T) { panic(\"boom\") }\n",
		"wrong/d_test.go": "package d\nfunc TestWrong(t *testing.T) {}\n",
	} {
		path := filepath.Join(dir, name)
		check.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		check.Must(t, os.WriteFile(path, []byte(text), 0o644))
	}
	exe := filepath.Join(t.TempDir(), "gotest")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", exe, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	list := filepath.Join(dir, "skipped")
	run := func(args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), exe, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "SKIPPED="+list)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}

	out, err := run("./good")
	if want := regexp.MustCompile(`\Aok  \tm/good\t[^\n]*\nskipped: 2 \(a tool is missing, or the kernel refuses\)\n\z`); err != nil || !want.MatchString(out) {
		t.Errorf("got %v and\n%s\nwant %s", err, out, want)
	}
	if text, err := os.ReadFile(list); err != nil || string(text) != "the kernel refuses mounts\tm/good.TestSkip/sub\nnot installed: a tool\tm/good.TestTool\n" {
		t.Errorf("skipped: got %q, %v", text, err)
	}
	out, err = run("./...")
	check.That(t, err != nil, "failed tests: got no error")
	for _, want := range []string{"b_test.go:3: reason", "--- FAIL: TestBad", "FAIL\tm/bad\t", "panic: boom", "FAIL\tm/crash\t", "undefined: testing", "FAIL\tm/wrong [build failed]", "ok  \tm/good\t", "skipped: 2 ("} {
		check.That(t, strings.Contains(out, want), "no %q in\n%s", want, out)
	}
	check.That(t, !strings.Contains(out, "chatter"), "a test that passed is shown:\n%s", out)
}
