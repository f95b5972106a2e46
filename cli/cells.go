package cli

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ipcbench/bench"
	"ipcbench/internal/link"
	"ipcbench/internal/ranges"
	"ipcbench/tensor"
	"ipcbench/tensor/models"
	"ipcbench/trainer"
	"ipcbench/transports"
)

// cellFlags say what to measure.
type cellFlags struct {
	transports, models, ups []string
	workers, clients        []string
	links                   []string
	listen                  string
	insecure                bool
	perProcess, depth       int
	codecs, lossless        []string
	changes                 []string
	values, scenario        string
	questions               string
	languages, peers        []string
	train                   string
	trainMS                 int
	respawn, nested         bool

	parts []cellFlags // what each of the questions asks for; nil without --questions
}

func (f *cellFlags) add(fs *pflag.FlagSet) {
	fs.StringSliceVar(&f.transports, "transport", []string{"all"}, "`LIST` of transports; settings follow after colons")
	fs.StringArrayVar(&f.peers, "peer", nil, "measure a program of yours too, `NAME='COMMAND'`, which runs whole blocks itself; may be repeated")
	fs.StringSliceVar(&f.models, "model", []string{"cnn", "histology"}, "`LIST` of models")
	fs.StringSliceVar(&f.ups, "up", []string{"model"}, "`LIST` of what clients send back: model, lora[:RANK], or a model")
	offer(fs, "model", modelWords)
	offer(fs, "up", modelWords)
	fs.StringSliceVar(&f.changes, "change", []string{"100%"}, "`LIST` of shares of the words that a round changes: 2%, or 2%/rows for whole rows")
	fs.StringVar(&f.values, "values", "", "`WHAT` the words hold at first: uniform|normal|file (default what the model's file has, or uniform)")
	fs.StringVar(&f.scenario, "scenario", bench.FedAvg, "`WHICH`: clients change the model (fedavg), or the server does (sync), which they answer with "+answerOfSync+" if --up is not given")
	offer(fs, "scenario", func() []string { return []string{bench.FedAvg, bench.Sync} })
	fs.StringVar(&f.questions, "questions", "", "measure the cells that answer what a project claims: `PROJECT` or PROJECT/PART of ipcbench list questions")
	offer(fs, "questions", questionNames)
	fs.StringSliceVar(&f.codecs, "codec", []string{transports.CodecSetting().Default}, "`LIST` of codecs that make models and updates smaller on their way")
	fs.StringSliceVar(&f.lossless, "require-lossless", nil, "refuse codecs that lose bits of tensors whose names match `GLOB`, such as *.bias; a list of them")
	fs.StringSliceVar(&f.workers, "workers", []string{"2"}, "`LIST`: how many workers train at the same time; 1..8:x2 is a range")
	fs.StringSliceVar(&f.clients, "clients", []string{"4"}, "`LIST`: how many clients a round has; a free worker takes the next one")
	fs.StringSliceVar(&f.links, "link", nil, "`LIST` of rates of a network that is made for the run: 100Mbit, 1Gbit, unshaped, none")
	fs.StringVar(&f.listen, "listen", "", "servers listen at `ADDR` of this machine, with or without a port, over TCP and with tls=mutual")
	fs.BoolVar(&f.insecure, "insecure-network", false, "let --listen leave this machine without tls=mutual")
	note(fs, harmful, "gives up encryption", "insecure-network")
	fs.StringSliceVar(&f.languages, "language", []string{"go"}, "`LIST` of what workers are written in: go, python, or python:PATH of an interpreter")
	note(fs, harmful, "may name a program", "language")
	fs.StringVar(&f.train, "train", "", "clients train with a function of yours in Python, `MODULE:FUNCTION`, and not with the one that is measured")
	note(fs, harmful, "runs a program", "peer", "train")
	fs.IntVar(&f.trainMS, "train-ms", 0, "every client's training uses `N` milliseconds of CPU time")
	fs.BoolVar(&f.respawn, "respawn", false, "start fresh worker processes for every round, and time that too")
	fs.BoolVar(&f.nested, "nested", false, "model and updates are values with tensors nested in them, which are taken apart and put together again")
	fs.IntVar(&f.perProcess, "lanes-per-process", 1, "put `N` workers into one process")
	fs.IntVar(&f.depth, "depth", trainer.DefaultDepth, "at most `N` updates of a worker exist at a time, the one in the making included")
}

// chosen reports whether a flag says what to measure.
func chosen(cmd *cobra.Command) bool {
	return slices.ContainsFunc([]string{"transport", "model", "up", "change", "values", "scenario", "questions", "codec", "workers", "clients", "link", "language", "train"}, cmd.Flags().Changed)
}

// firstCells are those of a run without any flag: one worker and one client, so that
// bandwidths and floors are shown too.
func (f *cellFlags) firstCells() { f.workers, f.clients = []string{"1"}, []string{"1"} }

// mostCells are more than anyone waits for: each takes a second at least. Ranges of all
// flags together stand for thousands of millions.
const mostCells = 10_000

// An axis is a flag whose list makes cells.
type axis struct {
	flag    string // as its errors begin
	entries []string
	set     making
}

// A making returns what an entry makes of a cell: several of a range, and none where it
// does not apply.
type making func(c bench.Spec, entry string) ([]bench.Spec, error)

// matrix returns all combinations of what the flags list. Models of one name are one, in
// all matrices that know them: cells of one model are compared.
func (a *app) matrix(f cellFlags, known map[string]*models.Model) ([]bench.Spec, error) {
	variants, err := a.rivals(&f)
	if err := cmp.Or(err, f.functionOf()); err != nil {
		return nil, err
	}
	named := map[string]transports.Variant{}
	for _, v := range variants {
		named[v.String()] = v
	}
	if f.links == nil {
		f.links = []string{link.Rate{}.String()}
	}
	cells := []bench.Spec{{PerProcess: f.perProcess, Depth: f.depth, Setup: bench.Setup{
		Scenario: map[string]string{bench.Sync: bench.Sync}[f.scenario], Train: f.train, TrainMS: f.trainMS, Respawn: f.respawn, Nested: f.nested}}}
	for _, x := range []axis{ // each sees what those before it have set
		{"--model:", f.models, f.modelAxis(known)},
		{"--up:", f.ups, updateAxis(known)},
		{"--change", f.changes, one(func(c *bench.Spec, text string) (err error) { c.Change, err = tensor.ParseChange(text); return err })},
		{"--workers", f.workers, numbers(func(c *bench.Spec) *int { return &c.Workers })},
		{"--clients", f.clients, numbers(func(c *bench.Spec) *int { return &c.Clients })},
		{"--transport", each(variants, transports.Variant.String), one(func(c *bench.Spec, text string) error { c.Variant = named[text]; return nil })},
		{"--codec", f.codecs, codecAxis(f.codecs)},
		{"--link:", f.links, linkAxis(f.links)},
		{"--language", f.languages, languageAxis(f.languages)},
	} {
		if cells, err = x.across(cells); err != nil {
			return nil, err
		}
	}
	return cells, cmp.Or(f.overLink(cells), lossless(f.lossless, cells))
}

// across returns the cells with each of the axis's entries.
func (x axis) across(cells []bench.Spec) (all []bench.Spec, err error) {
	flag := strings.TrimSuffix(x.flag, ":")
	if err := filled(flag, x.entries); err != nil {
		return nil, err
	}
	for _, c := range cells {
		first := len(all)
		for _, entry := range x.entries {
			made, err := x.set(c, entry)
			if err != nil && !errors.As(err, new(usageError)) { // which names a flag
				err = usagef("%s %w", x.flag, err)
			}
			if err != nil {
				return nil, err
			}
			for _, m := range made {
				if slices.ContainsFunc(all[first:], func(o bench.Spec) bool { return reflect.DeepEqual(o, m) }) {
					return nil, usagef("%s: %s is listed twice: leave one out", flag, entry)
				}
				if all = append(all, m); len(all) > mostCells {
					return nil, usagef("%s: all flags together ask for more than %d cells: choose less of them, or larger steps", flag, mostCells)
				}
			}
		}
	}
	return all, nil
}

// filled reports an entry that is missing.
func filled(flag string, list []string) error {
	if len(list) == 0 || slices.Contains(list, "") {
		return usagef("%s %q: an entry of the list is empty: want names or numbers with commas between them", flag, strings.Join(list, ","))
	}
	return nil
}

// one is an axis each of whose entries makes one cell.
func one(set func(c *bench.Spec, text string) error) making {
	return func(c bench.Spec, text string) ([]bench.Spec, error) {
		err := set(&c, text)
		return []bench.Spec{c}, err
	}
}

// numbers is an axis of whole numbers and ranges of them.
func numbers(at func(c *bench.Spec) *int) making {
	return func(c bench.Spec, text string) (all []bench.Spec, err error) {
		ns, err := ranges.Parse(text, 1, func(text string) (int, error) {
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 {
				return 0, fmt.Errorf("%s: want a whole number of at least 1", text)
			}
			return n, nil
		})
		for _, *at(&c) = range ns {
			all = append(all, c)
		}
		return all, err
	}
}

// names is an axis of models: set takes each of a range's names.
func names(set func(c *bench.Spec, name string) error) making {
	return func(c bench.Spec, text string) (all []bench.Spec, err error) {
		names, err := models.Expand(text)
		for _, name := range names {
			err := set(&c, name)
			if err != nil && !strings.HasSuffix(name, ".safetensors") && !errors.As(err, new(usageError)) { // whose errors say what is wrong
				err = hinted{err, "ipcbench list models"}
			}
			if err != nil {
				return nil, err
			}
			all = append(all, c)
		}
		return all, err
	}
}

func (f *cellFlags) modelAxis(known map[string]*models.Model) making {
	return names(func(c *bench.Spec, name string) error {
		m, err := models.Parse(name)
		if err != nil {
			return err
		}
		c.Model = once(known, "", m)
		if c.Values, err = bench.ValuesOf(m, f.values); err != nil {
			return usagef("--values %w", err)
		}
		return nil
	})
}

func updateAxis(known map[string]*models.Model) making {
	return names(func(c *bench.Spec, name string) (err error) {
		c.Up, err = models.Update(name, c.Model)
		if err == nil && c.Up != c.Model {
			c.Up = once(known, c.Model.Name+c.Model.File(), c.Up)
		}
		return err
	})
}

// once returns m, or the same model if it is known, which is an update of another one or
// of none.
func once(known map[string]*models.Model, of string, m *models.Model) *models.Model {
	name := of + " " + m.Name + " " + m.File()
	if known[name] == nil {
		known[name] = m
	}
	return known[name]
}

// answerOfSync is what clients answer to a server that changes the model itself, unless
// --up says what.
const answerOfSync = "uniform:64KiB/1"

// fitting returns the cells that can be measured here, or on the hosts of the run's
// agents, and the others. One that was named alone has to fit, and at least one of
// several; of a whole, all do.
func fitting(cells []bench.Spec, whole bool, o bench.Options) (fit []bench.Spec, skipped []bench.Skipped, err error) {
	hosts, err := o.Hosts()
	if err != nil {
		return nil, nil, err
	}
	alone := !slices.ContainsFunc(cells, func(c bench.Spec) bool { return c.Variant.String() != cells[0].Variant.String() })
	for _, c := range cells {
		e := hosts.Check(c)
		var unfit *bench.Unfit
		switch {
		case e == nil:
			fit = append(fit, c)
		case alone || !errors.As(e, &unfit):
			return nil, nil, e
		case whole:
			return nil, nil, hinted{e, "ipcbench list questions has parts of it; flags such as --model, --workers and --clients hold for all of them"}
		default:
			err = errors.Join(err, e)
			skipped = append(skipped, unfit.Skipped())
		}
	}
	if len(fit) == 0 {
		return nil, nil, err
	}
	return fit, skipped, nil
}
