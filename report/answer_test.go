package report

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ipcbench/bench/result"
	"ipcbench/internal/test/skip"
)

const answerPage = "../docs/answer.md"

// answerExample is a command of the page and what it prints.
var answerExample = regexp.MustCompile("(?s)(```sh\n(jq [^`]*)```\n+```text\n)([^`]*)```")

// keysOf calls f with the JSON keys of a type of this package, and of those in it.
func keysOf(t reflect.Type, f func(key string)) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || t.PkgPath() != reflect.TypeFor[answer]().PkgPath() {
		return
	}
	for i := range t.NumField() {
		field := t.Field(i)
		if key, _, _ := strings.Cut(field.Tag.Get("json"), ","); key != "" {
			f(key)
		}
		keysOf(field.Type, f)
	}
}

// TestAnswerPage: the page has every key, and what it says of jq is true.
func TestAnswerPage(t *testing.T) {
	page, err := os.ReadFile(answerPage)
	if err != nil {
		t.Fatal(err)
	}
	words := map[string]bool{}
	for _, word := range regexp.MustCompile(`[a-z_]+`).FindAllString(strings.Join(regexp.MustCompile("`[^`\n]+`").FindAllString(string(page), -1), " "), -1) {
		words[word] = true
	}
	for _, of := range []reflect.Type{reflect.TypeFor[answer](), reflect.TypeFor[comparisonAnswer]()} {
		keysOf(of, func(key string) {
			if !words[key] {
				t.Errorf("%s lacks the key %s of %s", answerPage, key, of.Name())
			}
		})
	}
	examples := answerExample.FindAllStringSubmatch(string(page), -1)
	if len(examples) < 4 || strings.Count(string(page), "\njq ") != len(examples) {
		t.Fatalf("%d examples with their output, want at least 4", len(examples))
	}
	if _, err := exec.LookPath("jq"); err != nil {
		skip.Missing(t, "jq (Debian: jq)")
	}
	real, err := result.ReadFile("../bench/testdata/result.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "answer.json"), []byte(format(t, "json", real)), 0o600); err != nil {
		t.Fatal(err)
	}
	renewed := string(page)
	for _, e := range examples {
		cmd := exec.Command("sh", "-c", e[2])
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if diff := cmp.Diff(e[3], string(out)); err != nil || diff != "" {
			t.Errorf("%s%v (-the page +jq):\n%s", e[2], err, diff)
		}
		renewed = strings.Replace(renewed, e[0], e[1]+string(out)+"```", 1)
	}
	if *update {
		if err := os.WriteFile(answerPage, []byte(renewed), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
