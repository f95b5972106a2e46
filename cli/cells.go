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
	"ipcbench/bench/result"
	"ipcbench/bench/session"
	"ipcbench/internal/link"
	"ipcbench/internal/ranges"
	"ipcbench/report/doc"
	"ipcbench/tensor"
	"ipcbench/tensor/models"
	"ipcbench/tensor/pages"
	"ipcbench/trainer"
	"ipcbench/transports"
)

// cellFlags are the flags that determine the cells.
type cellFlags struct {
	transports, models, ups []string
	workers, clients        []string
	links                   []string
	listen                  string
	insecure                bool
	codecs, lossless        []string
	changes                 []string
	values, scenario        string
	questions               string
	languages, peers, pages []string
	common                  session.Spec // fields that all cells share

	asked []result.Question // the questions of --questions
	parts []cellFlags       // the flags of each question; nil without --questions
}

func (f *cellFlags) add(fs *pflag.FlagSet) {
	fs.StringSliceVar(&f.transports, "transport", []string{"all"}, "`LIST` of transports with settings")
	fs.StringArrayVar(&f.peers, "peer", nil, "also measure this program: `NAME=COMMAND`; repeatable")
	fs.StringSliceVar(&f.models, "model", []string{"cnn", "histology"}, "`LIST` of models or files")
	fs.StringSliceVar(&f.ups, "up", []string{"model"}, "`LIST` of updates: model, lora or a name")
	offer(fs, "model", modelWords)
	offer(fs, "up", modelWords)
	fs.StringSliceVar(&f.changes, "change", []string{"100%"}, "`LIST` of shares of elements changed, or dense:SHARE of each value")
	fs.StringVar(&f.values, "values", "", "`KIND` of initial values: uniform|normal|file (default file for files, else uniform)")
	fs.StringVar(&f.scenario, "scenario", session.FedAvg, "`NAME`: fedavg, or sync (the server changes the model)")
	offer(fs, "scenario", func() []string { return []string{session.FedAvg, session.Sync} })
	fs.StringVar(&f.questions, "questions", "", "test claims: a `LIST` of PROJECT or PROJECT/PART")
	offer(fs, "questions", questionNames)
	fs.StringSliceVar(&f.codecs, "codec", []string{transports.CodecSetting().Default}, "`LIST` of codecs for models and updates")
	fs.StringSliceVar(&f.lossless, "require-lossless", nil, "reject codecs that alter tensors named like `GLOB`; a list")
	fs.StringSliceVar(&f.workers, "workers", []string{"2"}, "`LIST` of worker counts, such as 1..8:x2")
	fs.StringSliceVar(&f.clients, "clients", []string{"4"}, "`LIST` of client counts per round")
	fs.StringSliceVar(&f.links, "link", nil, "`LIST` of rates of a network: 1Gbit, unshaped, none")
	fs.StringVar(&f.listen, "listen", "", "listen over TCP at `ADDR` of this machine, with tls=mutual")
	fs.BoolVar(&f.insecure, "insecure-network", false, "allow --listen beyond this machine without tls=mutual")
	fs.StringSliceVar(&f.languages, "language", []string{"go"}, "`LIST` of go, python or python:PATH")
	fs.StringVar(&f.common.Train, "train", "", "train with your Python function `MODULE:FUNCTION`")
	fs.IntVar(&f.common.TrainMS, "train-ms", 0, "add `N` milliseconds of CPU time to each training")
	fs.BoolVar(&f.common.Respawn, "respawn", false, "start fresh worker processes every round, and time that")
	fs.BoolVar(&f.common.Nested, "nested", false, "send Go values with nested tensors, and time packing them")
	fs.StringSliceVar(&f.pages, "pages", []string{"system"}, "`LIST` of pages for tensors: system, small or huge")
	offer(fs, "pages", func() []string { return []string{"system", "small", "huge"} })
	fs.IntVar(&f.common.PerProcess, "lanes-per-process", 1, "put `N` workers into each process")
	fs.IntVar(&f.common.Depth, "depth", trainer.DefaultDepth,
		"at most `N` updates per worker, the unfinished one included")
}

// chosen reports whether a flag determines what to measure.
func chosen(cmd *cobra.Command) bool {
	return slices.ContainsFunc([]string{"transport", "model", "up", "change", "values", "scenario", "questions", "codec", "workers", "clients", "link", "language", "train", "pages"}, cmd.Flags().Changed)
}

// firstCells sets one worker and one client, for a run without flags: with them, bandwidths
// and floors are shown too.
func (f *cellFlags) firstCells() { f.workers, f.clients = []string{"1"}, []string{"1"} }

// mostCells limits the cells of a run. Each cell takes at least a second, and ranges in
// several flags can make billions of them.
const mostCells = 10_000

// An axis is a flag whose list multiplies the cells.
type axis struct {
	flag    string // prefix of its errors; without ":" if the errors add none
	entries []string
	set     expander
}

// An expander returns the cells that an entry of a list makes of c: several for a range, none if
// the entry does not apply to c.
type expander func(c session.Spec, entry string) ([]session.Spec, error)

// matrix returns all combinations of the lists in f. Models with the same name become the same
// pointer, also across the matrices that share known, because cells of one model are compared.
func (a *app) matrix(f cellFlags, known map[string]*models.Model) ([]session.Spec, error) {
	variants, err := a.chosenVariants(&f)
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
	f.common.Scenario = map[string]string{session.Sync: session.Sync}[f.scenario]
	cells := []session.Spec{f.common}
	for _, x := range []axis{ // an axis sees the fields that earlier ones have set
		{"--model:", f.models, f.modelAxis(known)},
		{"--up:", f.ups, updateAxis(known)},
		{"--change", f.changes, one(func(c *session.Spec, text string) (err error) { c.Change, err = tensor.ParseChange(text); return err })},
		{"--workers", f.workers, numbers(func(c *session.Spec) *int { return &c.Workers })},
		{"--clients", f.clients, numbers(func(c *session.Spec) *int { return &c.Clients })},
		{"--transport", doc.Each(variants, transports.Variant.String), one(func(c *session.Spec, text string) error { c.Variant = named[text]; return nil })},
		{"--codec", f.codecs, codecAxis(f.codecs)},
		{"--link:", f.links, linkAxis(f.links)},
		{"--language", f.languages, languageAxis(f.languages)},
		{"--pages", f.pages, one(func(c *session.Spec, text string) error {
			if c.Pages = pages.Size(strings.TrimPrefix(text, "system")); !c.Pages.Valid() {
				return usagef("--pages must be system, small or huge, not %q", text)
			}
			return nil
		})},
	} {
		if cells, err = x.across(cells); err != nil {
			return nil, err
		}
	}
	return cells, cmp.Or(f.overLink(cells), lossless(f.lossless, cells))
}

// across returns the cells combined with each entry of the axis. Duplicate cells are an error.
func (x axis) across(cells []session.Spec) (all []session.Spec, err error) {
	flag := strings.TrimSuffix(x.flag, ":")
	if err := filled(flag, x.entries); err != nil {
		return nil, err
	}
	for _, c := range cells {
		first := len(all)
		for _, entry := range x.entries {
			made, err := x.set(c, entry)
			if err != nil && !errors.As(err, new(usageError)) { // a usageError names its flag already
				err = usagef("%s %w", x.flag, err)
			}
			if err != nil {
				return nil, err
			}
			for _, m := range made {
				if slices.ContainsFunc(all[first:], func(o session.Spec) bool { return reflect.DeepEqual(o, m) }) {
					return nil, usagef("%s: %s is listed twice: remove one", flag, entry)
				}
				if all = append(all, m); len(all) > mostCells {
					return nil, usagef("%s: all flags together make more than %d cells: use shorter lists or larger steps", flag, mostCells)
				}
			}
		}
	}
	return all, nil
}

// filled returns an error if the list of a flag is empty or has an empty entry.
func filled(flag string, list []string) error {
	if len(list) == 0 || slices.Contains(list, "") {
		return usagef("%s %q: an entry of the list is empty: separate names or numbers by single commas", flag, strings.Join(list, ","))
	}
	return nil
}

// one is an axis whose entries make one cell each.
func one(set func(c *session.Spec, text string) error) expander {
	return func(c session.Spec, text string) ([]session.Spec, error) {
		err := set(&c, text)
		return []session.Spec{c}, err
	}
}

// numbers is an axis of positive integers and ranges of them. at returns the field to set.
func numbers(at func(c *session.Spec) *int) expander {
	return func(c session.Spec, text string) (all []session.Spec, err error) {
		ns, err := ranges.Parse(text, 1, func(text string) (int, error) {
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 {
				return 0, fmt.Errorf("%s: must be a whole number of at least 1", text)
			}
			return n, nil
		})
		for _, *at(&c) = range ns {
			all = append(all, c)
		}
		return all, err
	}
}

// names is an axis of models and ranges of their sizes. set stores the model of one name in
// the cell.
func names(set func(c *session.Spec, name string) error) expander {
	return func(c session.Spec, text string) (all []session.Spec, err error) {
		names, err := models.Expand(text)
		for _, name := range names {
			err := set(&c, name)
			if err != nil && !strings.HasSuffix(name, ".safetensors") && !errors.As(err, new(usageError)) { // errors about files are clear without a hint
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

func (f *cellFlags) modelAxis(known map[string]*models.Model) expander {
	return names(func(c *session.Spec, name string) error {
		m, err := models.Parse(name)
		if err != nil {
			return err
		}
		c.Model = once(known, "", m)
		if c.Values, err = session.ValuesOf(m, f.values); err != nil {
			return usagef("--values %w", err)
		}
		return nil
	})
}

func updateAxis(known map[string]*models.Model) expander {
	return names(func(c *session.Spec, name string) (err error) {
		c.Up, err = models.Update(name, c.Model)
		if err == nil && c.Up != c.Model {
			c.Up = once(known, c.Model.Name+c.Model.File(), c.Up)
		}
		return err
	})
}

// once returns m, or the equal model in known. Updates are equal only if they belong to the
// same model, which of names; of is empty for models.
func once(known map[string]*models.Model, of string, m *models.Model) *models.Model {
	name := of + " " + m.Name + " " + m.File()
	if known[name] == nil {
		known[name] = m
	}
	return known[name]
}

// answerOfSync is the default of --up with --scenario sync, whose clients only acknowledge the
// model.
const answerOfSync = "uniform:64KiB/1"

// fitting splits cells into those that this machine, or the hosts of the agents, can run and
// cells to skip. It is an error if none can run, if the only named variant cannot, or
// if strict is set and any cell without Python cannot.
func fitting(cells []session.Spec, strict bool, o bench.Options) (fit []session.Spec, skipped []result.Skipped, err error) {
	hosts, err := o.Hosts()
	if err != nil {
		return nil, nil, err
	}
	alone := !slices.ContainsFunc(cells, func(c session.Spec) bool { return c.Variant.String() != cells[0].Variant.String() })
	for _, c := range cells {
		e := hosts.Check(c)
		var unfit *session.Unfit
		switch {
		case e == nil:
			fit = append(fit, c)
		case alone || !errors.As(e, &unfit):
			return nil, nil, e
		case strict && !inPython(c):
			return nil, nil, hinted{e, "choose single questions from ipcbench list questions, or change all of them with --model, --workers or --clients"}
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
