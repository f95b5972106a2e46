package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
)

// commandLine matches a command of ipcbench in a code block of a page, with the lines that continue it.
var commandLine = regexp.MustCompile(`(?m)^(?: {4})?(?:mpirun -np 3 |v/bin/)?(ipcbench (?:run|world|agent|report|compare|pprof|doctor|clean|list|version|schema|help)\b(?:.*\\\n)*.*)$`)

// asPlanned makes a shell function of ipcbench that measures nothing: run prints its plan, and others their help once
// they have accepted the flags before it.
const asPlanned = `ipcbench() {
	case $1 in
	run) command ipcbench "$@" --dry-run ;;
	pprof) command ipcbench "$@" ;;
	*) command ipcbench "$@" --help ;;
	esac
}
P=p.pb.gz H=h.pb.gz
`

// TestCommands: ipcbench accepts every command line in the pages. Files, addresses, modules and huge pages that a line names
// need not exist.
func TestCommands(t *testing.T) {
	skip.Long(t)
	dir, bin := t.TempDir(), t.TempDir()
	env := installed(t, bin)
	root := check.Value(filepath.Abs("../.."))(t)
	for _, name := range []string{"python", "examples"} {
		check.Must(t, os.Symlink(filepath.Join(root, name), filepath.Join(dir, name)))
	}
	absent := regexp.MustCompile(`(?i)no such file|not an address of this machine|no module |memory is not in huge pages`)
	found := 0
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/reference/*.md", "results/*.md", "examples/*/*.md"} {
		for _, page := range check.Value(filepath.Glob(filepath.Join(root, pattern)))(t) {
			for _, line := range commandLine.FindAllStringSubmatch(string(check.Value(os.ReadFile(page))(t)), -1) {
				found++
				out, err := bash(t, dir, asPlanned+line[1], env...)
				check.That(t, err == nil || absent.MatchString(out),
					"%s: %s\n%v\n%s", strings.TrimPrefix(page, root), line[1], err, out)
			}
		}
	}
	check.That(t, found >= 50, "only %d commands found", found)
}
