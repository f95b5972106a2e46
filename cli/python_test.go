package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"ipcbench/bench/program"
	"ipcbench/bench/result"
	"ipcbench/bench/session"
	"ipcbench/internal/link"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/child"
	"ipcbench/internal/test/skip"
	"ipcbench/internal/test/waiting"
	"ipcbench/python"
	"ipcbench/report/doc/doctest"
	"ipcbench/transports/all"
	"ipcbench/transports/driver"
)

// burning is a user's training of 0.1 s of CPU time per job, half of it in a process that ends and half in one
// that stays, as a pool does, and holds all descriptors of the worker.
const burning = `
import os, time

def burn():
    end = time.process_time() + 0.05
    while time.process_time() < end:
        pass

kept = None

def train(model, update, job):
    global kept
    if kept is None:
        (left, there), (here, right) = os.pipe(), os.pipe()
        if os.fork() == 0:
            while os.read(left, 1):
                burn()
                os.write(right, b"x")
            os._exit(0)
        kept = there, here
    child = os.fork()
    if child == 0:
        burn()
        os._exit(0)
    os.waitpid(child, 0)
    os.write(kept[0], b"x")
    os.read(kept[1], 1)
    for name in model:
        update[name] = model[name]
`

var (
	featureTable  = regexp.MustCompile("(?s)(<!-- features: begin[^\n]*\n).*(<!-- features: end -->)")
	flagOrSetting = regexp.MustCompile(`--[a-z-]+|\w+=\w+`)
)

// TestPythonFeatures: all that session.Features says of workers in Python is true, and it knows every dimension of
// cells. What it calls supported runs, over every transport and by every launcher, and is proved. The rest is refused
// with its reason. docs/python.md has the list.
func TestPythonFeatures(t *testing.T) {
	page := string(check.Value(os.ReadFile("../docs/python.md"))(t))
	table := "| flag or setting | with workers in Python |\n| --- | --- |\n"
	for _, row := range featureRows() {
		table += "| " + flagOrSetting.ReplaceAllString(row[0], "`$0`") + " | " + row[1] + " |\n"
	}
	for _, d := range result.Dims {
		check.That(t, d.Key == "language" || strings.Contains(table, "`--"+d.Key+"`"), "the list lacks --%s", d.Key)
	}
	check.Need(t, featureTable.MatchString(page), "docs/python.md has no place for the table")
	doctest.Golden(t, "../../docs/python.md", featureTable.ReplaceAllString(page, "${1}\n"+table+"\n${2}"))
	if _, err := python.Find(t.Context(), "", python.ForWorkers(python.Transports()...)...); err != nil {
		skip.Missing(t, "%v", err)
	}
	runs := append(pythonRuns(), strings.Join(variantsInPython(), ","))
	for _, f := range session.Features() {
		if f.Why == "" {
			for name := range strings.SplitSeq(strings.TrimPrefix(f.Name, "--transport "), ", ") {
				check.That(t, strings.Contains(strings.Join(runs, " "), name), "%s is supported, but in no run", name)
			}
			continue
		}
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			check.Need(t, refusedInPython[f.Name] != "", "no run asks for it")
			for args := range strings.SplitSeq(refusedInPython[f.Name], "; ") {
				c := child.Start(t, command(t, strings.Fields("run --dry-run --language python --transport "+args)...))
				c.Ends(waiting.Limit, 2, regexp.QuoteMeta(f.Why))
			}
		})
	}
	for i, args := range runs {
		t.Run(strings.TrimPrefix(args, "--transport "), func(t *testing.T) {
			if i > 1 {
				skip.Long(t)
			}
			t.Parallel()
			runInPython(t, args)
		})
	}
}

var rowTable = regexp.MustCompile("(?s)(<!-- rows: begin[^\n]*\n).*(<!-- rows: end -->)")

// TestPythonRows: docs/python.md has all reference rows, with their settings. README's table names each row that
// belongs to a project. Docstrings have the release of the row's project.
func TestPythonRows(t *testing.T) {
	table := "| row | how tensors travel | settings, the default first |\n| --- | --- | --- |\n"
	nearest := fmt.Sprint(frameworks())
	for _, row := range python.Rows() {
		var settings []string
		for _, k := range row.Knobs {
			values := append([]string{k.Default}, slices.DeleteFunc(slices.Clone(k.Values), func(v string) bool { return v == k.Default })...)
			settings = append(settings, "`"+k.Name+"="+strings.Join(values, "|")+"`: "+k.Help)
		}
		table += "| `" + row.Name + "` | " + row.About() + " | " + strings.ReplaceAll(strings.Join(settings, "; "), "|", "\\|") + " |\n"
		check.That(t, regexp.MustCompile(`\b`+row.Name+`\b`).MatchString(nearest) || row.Name == "py-http", "README's table lacks %s", row.Name)
		text := string(check.Value(os.ReadFile("../python/peers/" + row.File))(t))
		if r := python.Releases()[row.Of]; row.Of != "" {
			want := fmt.Sprintf("\"\"\"%s %s (%s): ", row.Of, r.Version, r.Date)
			check.That(t, r.Version != "" && strings.HasPrefix(text, want), "%s does not begin with %s", row.File, want)
		}
	}
	page := string(check.Value(os.ReadFile("../docs/python.md"))(t))
	check.Need(t, rowTable.MatchString(page), "docs/python.md has no place for the table of rows")
	doctest.Golden(t, "../../docs/python.md", rowTable.ReplaceAllString(page, "${1}\n"+table+"\n${2}"))
}

// TestMissingRow: a row that runs a project's own code says in one line what to install, if the project is missing.
func TestMissingRow(t *testing.T) {
	for _, row := range python.Rows() {
		if !strings.HasPrefix(row.File, "own_") {
			continue
		}
		p := program.NewRow(row)
		_, err := p.Ready()
		if err == nil {
			continue
		}
		check.Fails(t, err, "pip install ")
		check.Equal(t, (&app{rows: []*program.Program{p}}).peerRows(), [][]string{{row.Name, p.Help(), err.Error()}})
		c := child.Start(t, command(t, "run", "--dry-run", "--model", "cnn", "--workers", "1", "--clients", "1", "--transport", row.Name))
		c.Ends(waiting.Limit, 2, `\Aipcbench: `+row.Name+` .*`+regexp.QuoteMeta(err.Error())+`\n\z`)
	}
}

// refusedInPython has, for each feature that workers in Python do not support, transports and flags that ask for it,
// separated by semicolons.
var refusedInPython = map[string]string{
	"other transports":            "pickle; storage; shm-tensor; inproc",
	"tls=on, tls=mutual":          "http:tls=on; grpc-stream:tls=mutual; http --listen 127.0.0.1",
	"--codec":                     "http --codec int8; shm-slab:codec=sparse",
	"--change":                    "http --change 2%",
	"--nested":                    "http --nested",
	"--lanes-per-process above 1": "http --lanes-per-process 2",
	"--round-limit below 1s":      "http --round-limit 999ms",
	"--agents":                    "http --agents 1 --listen 127.0.0.1",
	"--against":                   "http --against ipcbench",
	"--profile":                   "http --profile cpu",
	"--canary":                    "http --canary=20%",
}

// pythonRuns returns the transports and flags of runs with workers in Python. Only the first two are short.
func pythonRuns() []string {
	each := strings.Join(python.Transports(), ",")
	return []string{
		each + " --workers 2 --clients 3 --depth 1 --up uniform:8KiB/2 --values normal --pin",
		"shm-slab,http-shm,http --train burning:train --workers 1 --clients 1 --pages small",
		each + " --train burning:train",
		"shm-slab,http,grpc-stream --train burning:train --respawn --clients 1",
		"shm-slab,http,grpc-stream --train-ms 1 --respawn --server-cpus 1",
		each + " --scenario sync",
		strings.ReplaceAll(strings.TrimPrefix(each, "shm-slab,"), ",", ":tls=off,") +
			":tls=off --listen 127.0.0.1 --insecure-network",
		"http,grpc-stream --link 1Gbit,100Mbit/5ms",
		"http --train burning:train --link 1Gbit",
	}
}

// variantsInPython returns each transport that workers in Python support with each value of each of its choices.
func variantsInPython() (names []string) {
	for _, transport := range all.Transports() {
		if !slices.Contains(python.Transports(), transport.Name()) {
			continue
		}
		for _, s := range transport.Settings() {
			for _, value := range s.Values {
				if s.Kind == driver.Choice && s.Name != "tls" && value != s.Default {
					name := transport.Name() + ":" + s.Name + "=" + value
					names = append(names, strings.Replace(name, "drain=", "cache=on:drain=", 1))
				}
			}
		}
	}
	return names
}

// runInPython runs the command with workers in Python, which must prove all cells. CPU time of processes that a
// user's function has started is counted.
func runInPython(t *testing.T, args string) {
	t.Helper()
	if strings.Contains(args, "--link") {
		if err := link.Try(check.Value(link.Parse("100Mbit/5ms"))(t)); err != nil {
			skip.Refused(t, "a link with a delay: %v", err)
		}
	}
	const usual = "run --quiet --blocks 1 --rounds 2 --warmup 0 --model uniform:16KiB/3 --out out.json --language python"
	cmd := command(t, strings.Fields(usual+" --transport "+args)...)
	check.Must(t, os.WriteFile(filepath.Join(cmd.Dir, "burning.py"), []byte(burning), 0o600))
	r := measured(t, cmd, filepath.Join(cmd.Dir, "out.json"))
	count := 0
	for _, c := range r.Cells {
		if c.Language != result.InPython {
			continue
		}
		count++
		check.That(t, c.Proved() && len(c.Blocks) == 1, "%s is not proved: %s", c.ID(), c.Unproved)
		if c.Train == "" || c.Respawn {
			continue
		}
		var spent time.Duration
		for _, p := range c.Blocks[0].Processes {
			spent += p.Usage.User + p.Usage.System
		}
		want := time.Duration(len(c.Blocks[0].Round)*c.Clients) * 100 * time.Millisecond
		ticks := time.Duration(c.Workers) * 30 * time.Millisecond // by which a living process may seem to use less
		check.That(t, spent > want-ticks, "%s: %v of CPU time, want %v", c.ID(), spent, want)
	}
	transports, _, _ := strings.Cut(args, " ")
	check.That(t, count > strings.Count(transports, ",") && len(r.Skipped) == 0, "%d cells; skipped: %v", count, r.Skipped)
}
