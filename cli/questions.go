package cli

import (
	"cmp"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ipcbench/bench/result"
	"ipcbench/bench/session"
	"ipcbench/internal/near"
	"ipcbench/tensor/models"
)

// A question is a claim of a project, with the settings of the cells that test it.
type question struct {
	result.Question
	more     bool // asked only by its own name
	settings []entry
	plan     []entry // how long to measure, if it is the only question and the flags do not say it
}

// questions returns the questions of all projects. A part whose name begins with + is asked only
// by its own name. It panics if a file is invalid; a test reads all of them.
func questions() (all []question) {
	files, _ := fs.Glob(texts, "questions/*.yaml") // the pattern is valid
	for _, file := range files {
		project := strings.TrimSuffix(path.Base(file), ".yaml")
		for _, text := range strings.Split(readText(file), "---\n")[1:] {
			var about []string
			for line := range strings.Lines(text) {
				if comment, ok := strings.CutPrefix(line, "#"); ok {
					about = append(about, strings.Fields(comment)...)
				}
			}
			name, asked, _ := strings.Cut(strings.Join(about, " "), ": ")
			name, more := strings.CutPrefix(name, "+")
			settings, err := parseConfig(project+"/"+name, []byte(text))
			if err != nil {
				panic(err)
			}
			q := question{Question: result.Question{Name: project + "/" + name, Text: asked}, more: more}
			for _, e := range settings {
				switch e.key {
				case "claims":
					err = e.value.Decode(&q.Claims)
				case "blocks", "time":
					q.plan = append(q.plan, e)
				default:
					q.settings = append(q.settings, e)
				}
			}
			if err != nil {
				panic(err)
			}
			all = append(all, q)
		}
	}
	return all
}

// named returns the questions of a name, PROJECT or PROJECT/NAME, and all valid names.
func named(name string) (found []question, names []string) {
	for _, q := range questions() {
		project, _, _ := strings.Cut(q.Name, "/")
		if names = append(names, q.Name); !slices.Contains(names, project) {
			names = append(names, project)
		}
		if name == q.Name || name == project && !q.more {
			found = append(found, q)
		}
	}
	return found, names
}

func questionNames() []string {
	_, names := named("")
	return names
}

// complete checks --scenario and --questions and sets the flags that depend on them. Flags
// that are given apply to all questions.
func (f *cellFlags) complete(cmd *cobra.Command) error {
	if f.scenario != session.FedAvg && f.scenario != session.Sync {
		err := usagef("--scenario must be fedavg or sync, not %q", f.scenario)
		if found, _ := named(f.scenario); len(found) > 0 {
			err = hinted{err, "did you mean --questions " + f.scenario + "?"}
		}
		return err
	}
	if f.scenario == session.Sync && !cmd.Flags().Changed("up") {
		f.ups = []string{answerOfSync}
	}
	if f.questions == "" {
		return nil
	}
	var all []question
	for name := range strings.SplitSeq(f.questions, ",") {
		found, names := named(name)
		if len(found) == 0 {
			return hinted{usagef("--questions %q: no such project or PROJECT/PART", name), cmp.Or(near.Meant("", name, names), "ipcbench list questions")}
		}
		for _, q := range found { // once, even if several names mean it
			if !slices.ContainsFunc(all, func(o question) bool { return o.Name == q.Name }) {
				all = append(all, q)
			}
		}
	}
	if len(all) == 1 {
		for _, e := range all[0].plan {
			if to := cmd.Flags().Lookup(e.key); !to.Changed {
				if err := e.set(cmd.Flags(), to); err != nil {
					return usagef("%s: %w", e.place, err)
				}
			}
		}
	}
	var links []string
	for _, q := range all {
		p, err := q.asks(cmd.Flags())
		if err != nil {
			return err
		}
		if f.scenario == session.Sync && !cmd.Flags().Changed("up") {
			p.ups = f.ups
		}
		f.asked = append(f.asked, q.Question)
		f.parts, links = append(f.parts, p), append(links, p.links...)
	}
	if len(links) > 0 {
		slices.Sort(links)
		f.links = slices.Compact(links) // the namespaces of the run need the links of all questions
	}
	return nil
}

// asks returns the flags for the cells of the question. given overrides its settings.
func (q question) asks(given *pflag.FlagSet) (f cellFlags, err error) {
	fs := pflag.NewFlagSet(q.Name, pflag.ContinueOnError)
	f.add(fs)
	all := slices.Clone(q.settings)
	fs.VisitAll(func(to *pflag.Flag) {
		if from := given.Lookup(to.Name); from.Changed && to.Name != "questions" {
			all = append(all, entry{from.Name, "--" + from.Name, valueNode(from)})
		}
	})
	for _, e := range all { // given flags are last, so they override
		if err := e.set(fs, fs.Lookup(e.key)); err != nil {
			return f, usagef("%s: %w", e.place, err)
		}
	}
	return f, nil
}

// cells returns the cells that the flags request: one matrix, or the matrices of all questions
// without duplicates. Cells that are compared must agree in lanes per process and depth.
func (a *app) cells(f cellFlags) ([]session.Spec, error) {
	parts := f.parts
	if parts == nil {
		parts = []cellFlags{f}
	}
	var all []session.Spec
	type work struct { // cells with the same work are compared
		model, up        *models.Model
		workers, clients int
	}
	last := map[work]session.Spec{}
	known := map[string]*models.Model{}
	seen := map[string]bool{}
	for i, of := range parts {
		cells, err := a.matrix(of, known)
		if err != nil {
			return nil, err
		}
		for _, c := range cells {
			w := work{c.Model, c.Up, c.Workers, c.Clients}
			other, ok := last[w]
			if here, there := min(c.PerProcess, c.Workers), min(other.PerProcess, c.Workers); ok && (here != there || c.Depth != other.Depth) {
				return nil, usagef("--questions %s: %s would have %d and %d workers per process, at depth %d and %d, in questions that are compared: set --lanes-per-process and --depth",
					f.questions, c, there, here, other.Depth, c.Depth)
			}
			last[w] = c
			if !seen[c.String()] {
				seen[c.String()] = true
				if f.parts != nil {
					c.Question = f.asked[i].Name
				}
				all = append(all, c)
			}
		}
	}
	return all, nil
}
