package cli

import (
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ipcbench/bench"
	"ipcbench/internal/near"
	"ipcbench/report/doc"
	"ipcbench/tensor/models"
)

// Each file is what a project claims, as flags that say what to measure: a mapping of
// parts, each a mapping of flags, below a comment with the question that it answers.
//
//go:embed scenarios
var presetFiles embed.FS

// A preset is a scenario that stands for cells of several kinds: its parts.
type preset struct {
	name  string
	parts []part
}

// A part is cells that answer one question.
type part struct {
	name, question string
	flags          []entry
}

// projects are the names of all presets. Help has them, so that nothing is parsed for it.
func projects() (names []string) {
	files, err := presetFiles.ReadDir("scenarios")
	if err != nil {
		panic(err) // it is a part of the program
	}
	for _, f := range files {
		names = append(names, strings.TrimSuffix(f.Name(), presetSuffix))
	}
	return names
}

const presetSuffix = ".yaml"

// presets returns all, by name. The files are ours: a test reads them all.
func presets() []preset {
	var all []preset
	for _, name := range projects() {
		text, err := presetFiles.ReadFile(path.Join("scenarios", name+presetSuffix))
		if err != nil {
			panic(err)
		}
		p := preset{name: name}
		parts, err := parseConfig("scenario "+p.name, text)
		for _, e := range parts {
			of := part{name: e.key, question: e.comment}
			if err == nil {
				of.flags, err = e.entries("scenario " + p.name)
			}
			p.parts = append(p.parts, of)
		}
		if err != nil {
			panic(err)
		}
		all = append(all, p)
	}
	return all
}

// presetNames are what --scenario takes besides fedavg and sync.
func presetNames() (names []string) {
	for _, p := range presets() {
		names = append(names, p.name)
		for _, of := range p.parts {
			names = append(names, p.name+"/"+of.name)
		}
	}
	return names
}

// preset returns the parts of the preset that --scenario names, all or one; none if it
// names none.
func (f *cellFlags) preset() ([]part, error) {
	if f.scenario == bench.FedAvg || f.scenario == bench.Sync {
		return nil, nil
	}
	name, one, some := strings.Cut(f.scenario, "/")
	for _, p := range presets() {
		if p.name != name {
			continue
		}
		if !some {
			return p.parts, nil
		}
		for _, of := range p.parts {
			if of.name == one {
				return []part{of}, nil
			}
		}
	}
	hint := "ipcbench list scenarios"
	if n := near.Name(f.scenario, presetNames()); n != "" {
		hint = "did you mean " + n + "?"
	}
	return nil, hinted{usagef("--scenario %q: want fedavg or sync, or what answers claims: %s, or one of their parts", f.scenario, strings.Join(projects(), ", ")), hint}
}

// complete settles what depends on other flags. What was given holds for all parts of a
// preset.
func (f *cellFlags) complete(cmd *cobra.Command) error {
	parts, err := f.preset()
	if err != nil {
		return err
	}
	if f.scenario == bench.Sync && !cmd.Flags().Changed("up") {
		f.ups = []string{answerOfSync}
	}
	var links []string
	for _, of := range parts {
		p, err := of.asks(cmd.Flags())
		if err != nil {
			return err
		}
		f.parts, links = append(f.parts, p), append(links, p.links...)
	}
	if len(parts) > 0 && len(links) > 0 {
		slices.Sort(links)
		f.links = slices.Compact(links) // where the whole run is
	}
	return nil
}

// asks returns what the part asks for, where given says nothing else.
func (p part) asks(given *pflag.FlagSet) (f cellFlags, err error) {
	fs := pflag.NewFlagSet(p.name, pflag.ContinueOnError)
	f.add(fs)
	fs.VisitAll(func(to *pflag.Flag) {
		from := given.Lookup(to.Name)
		if !from.Changed || to.Name == "scenario" {
			return
		}
		if list, ok := from.Value.(pflag.SliceValue); ok {
			err = to.Value.(pflag.SliceValue).Replace(list.GetSlice())
		} else {
			err = fs.Set(to.Name, from.Value.String())
		}
		to.Changed = true
		if err != nil {
			panic(err) // it was taken once
		}
	})
	for _, e := range p.flags {
		to := fs.Lookup(e.key)
		if to == nil {
			return f, fmt.Errorf("%s: %s: says nothing of what to measure", e.place, e.key)
		}
		if to.Changed {
			continue
		}
		if err := e.set(fs, to); err != nil {
			return f, fmt.Errorf("%s: %s: %w", e.place, e.key, err)
		}
	}
	return f, nil
}

// cells returns what the flags ask for: one matrix, or those of all parts of a preset,
// each cell once.
func (a *app) cells(f cellFlags) ([]bench.Spec, error) {
	if f.parts == nil {
		return a.matrix(f, map[string]*models.Model{})
	}
	var all []bench.Spec
	type work struct { // what is compared
		model, up        *models.Model
		workers, clients int
	}
	type shape struct{ perProcess, depth int }
	shapes := map[work]shape{}
	known := map[string]*models.Model{}
	seen := map[string]bool{}
	for _, of := range f.parts {
		cells, err := a.matrix(of, known)
		if err != nil {
			return nil, err
		}
		for _, c := range cells {
			w, as := work{c.Model, c.Up, c.Workers, c.Clients}, shape{min(c.PerProcess, c.Workers), c.Depth}
			if other, ok := shapes[w]; ok && other != as {
				return nil, usagef("--scenario %s: %s would have %d and %d workers in a process, at depth %d and %d, in parts that are compared: give --lanes-per-process and --depth",
					f.scenario, c, other.perProcess, as.perProcess, other.depth, as.depth)
			}
			shapes[w] = as
			if !seen[c.String()] {
				seen[c.String()] = true
				all = append(all, c)
			}
		}
	}
	return all, nil
}

func (a *app) listScenarios() error {
	rows := [][]string{
		{bench.FedAvg, "clients change the model, and the server averages that: what every run does by default"},
		{bench.Sync, "the server changes the model, and clients read all of it and answer little"},
	}
	for _, p := range presets() {
		for _, of := range p.parts {
			rows = append(rows, []string{p.name + "/" + of.name, of.question})
		}
	}
	return a.list("A name without what follows the slash stands for all of its parts.", []doc.Column{{Name: "scenario"}, {Name: "what it is, or answers", Wrap: true}}, rows)
}
