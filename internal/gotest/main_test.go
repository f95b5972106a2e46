package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestGotest: packages have go test's own closing lines, a failed test says all,
// one that passes nothing, and what the kernel refused is counted. A test that fails once
// and then passes is named, and fails nothing; one that fails again does, and so do a
// crash and a race.
func TestGotest(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":          "module m\n",
		"good/a_test.go":  "package a\nimport \"testing\"\nfunc TestSkip(t *testing.T) { t.Run(\"sub\", func(t *testing.T) { t.Skip(\"the kernel refuses mounts\") }) }\nfunc TestOther(t *testing.T) { t.Skip(\"too slow\") }\nfunc TestGood(t *testing.T) { t.Log(\"chatter\") }\n",
		"bad/b_test.go":   "package b\nimport \"testing\"\nfunc TestBad(t *testing.T) { t.Error(\"reason\") }\nfunc TestGood(t *testing.T) { t.Log(\"chatter\") }\n",
		"crash/c_test.go": "package c\nimport \"testing\"\nfunc TestCrash(t *testing.T) { panic(\"boom\") }\n",
		"flaky/e_test.go": "package e\nimport (\n\"os\"\n\"testing\"\n)\nfunc TestFlaky(t *testing.T) { if os.Mkdir(\"ran\", 0o755) == nil { t.Error(\"the first time\") } }\nfunc TestGood(t *testing.T) {}\n",
		"rare/f_test.go":  "package f\nimport (\n\"os\"\n\"testing\"\n)\nfunc TestRare(t *testing.T) { if os.Mkdir(\"1\", 0o755) == nil || os.Mkdir(\"2\", 0o755) != nil { t.Error(\"not always\") } }\n",
		"race/g_test.go":  "package g\nimport (\n\"fmt\"\n\"os\"\n\"testing\"\n)\nfunc TestRace(t *testing.T) { if os.Mkdir(\"ran\", 0o755) == nil { fmt.Println(\"WARNING: DATA RACE\"); t.Error(\"raced\") } }\n",
		"wrong/d_test.go": "package d\nfunc TestWrong(t *testing.T) {}\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
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
	if want := regexp.MustCompile(`\Aok  \tm/good\t[^\n]*\nskipped: 1 \(the kernel refuses\)\n\z`); err != nil || !want.MatchString(out) {
		t.Errorf("got %v and\n%s\nwant %s", err, out, want)
	}
	if text, err := os.ReadFile(list); err != nil || string(text) != "m/good.TestSkip/sub\n" {
		t.Errorf("skipped: got %q, %v", text, err)
	}
	out, err = run("./...")
	if err == nil {
		t.Error("failed tests: got no error")
	}
	for _, want := range []string{"b_test.go:3: reason", "--- FAIL: TestBad", "FAIL\tm/bad\t", "panic: boom", "FAIL\tm/crash\t", "undefined: testing", "FAIL\tm/wrong [build failed]", "ok  \tm/good\t", "skipped: 1 ("} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out, "three times more") {
		t.Errorf("tests were run again beside a crash:\n%s", out)
	}
	for _, made := range []string{"rare/1", "rare/2", "flaky/ran", "race/ran"} {
		if err := os.RemoveAll(filepath.Join(dir, made)); err != nil {
			t.Fatal(err)
		}
	}
	if strings.Contains(out, "chatter") {
		t.Errorf("a test that passed is shown:\n%s", out)
	}

	out, err = run("-timeout", "1m", "./flaky", "./good")
	if want := "flaky: 1 (failed, then passed three times alone): m/flaky.TestFlaky\nskipped: 1 ("; err != nil || !strings.Contains(out, want) || !strings.Contains(out, "the first time") {
		t.Errorf("a flaky test: got %v and\n%s\nwant %s", err, out, want)
	}
	for name, want := range map[string]string{"./bad": "m/bad.TestBad three times more, alone", "./rare": "m/rare.TestRare: exit status 1", "./race": "raced"} {
		if out, err := run(name); err == nil || !strings.Contains(out, want) || strings.Contains(out, "flaky:") {
			t.Errorf("%s: got %v and\n%s\nwant %s", name, err, out, want)
		}
	}
}
