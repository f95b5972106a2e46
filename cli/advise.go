package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ipcbench/bench"
	"ipcbench/link"
	"ipcbench/machine"
	"ipcbench/report"
	"ipcbench/report/analysis"
	"ipcbench/report/doc"
	"ipcbench/transports"
)

// adviseFlags are what `ipcbench advise` was asked for.
type adviseFlags struct {
	cellFlags
	from        []string
	foreign     bool
	calibrate   time.Duration
	verify      int // how many of the ranking
	format, out string
	quiet       bool
	settings    *settings
}

// ofWork are the flags that say the same as those of a run, for one model.
var ofWork = []string{"model", "up", "workers", "clients", "transport", "codec", "change", "values", "link"}

func (a *app) adviseCommand() *cobra.Command {
	var f adviseFlags
	cmd := &cobra.Command{
		Use:   "advise --model MODEL [--from FILE...]",
		Short: "Say which transport to use for a model that was never measured",
		Long: strings.TrimSpace(`
Predict what a round takes with each transport, for a model and a number of
workers and clients that need not have been measured, and rank the transports.

  ipcbench advise --model resnet50 --workers 8 --clients 64
      measures smaller models like it for a minute, and predicts from these
  ipcbench advise --model resnet50 --workers 8 --clients 64 --from r.json.gz
      predicts from what ipcbench run has measured, and measures nothing
  ipcbench advise --model my.safetensors --up lora --calibrate 3m --verify
      takes more time, and then measures the first two of the ranking

A prediction is made of what a round, a client, a tensor and a byte have cost,
and has an interval. How far off predictions were for shapes that they had not
seen is printed beside them (held out), and what lies beyond all that was
measured is marked (extrapolated). Transports whose difference from the best is
smaller than its interval are a tie: any of them may be the fastest.

Results for --from are good if they have several models, of different sizes and
numbers of tensors, with as many workers. like: makes such models of one:

  ipcbench run --model like:resnet50:10MB..160MB:x4/320,like:resnet50:40MB/80
    --workers 8 --clients 64 --out r.json.gz

They have to be this machine's. --foreign predicts from those of another one
all the same, for that one. Several files follow each other with commas.

What is on the way is said as for ipcbench run, also with a network that has a
rate, codecs and encryption:

  ipcbench advise --model resnet18 --link 1Gbit --codec none,int8 --change 2%
  ipcbench advise --model gpt2 --transport http,grpc-stream --tls=mutual

The last line is the command that measures what was predicted for the first
ones, and --verify runs it, without the floors of the machine.`),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && f.from == nil {
				return hinted{usagef("advise takes no argument %q", args[0]), "files follow --from, and values of --tls and --verify an equals sign"}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			f.from = append(f.from, args...) // which a shell makes of --from *.json
			if err := f.check(cmd.Flags().Changed); err != nil {
				return err
			}
			cells, err := f.asked(a)
			if err != nil {
				return err
			}
			if f.from == nil || f.verify > 0 {
				if err := f.enter(); err != nil {
					return err
				}
			}
			return interruptible(func(ctx context.Context) error { return a.advise(ctx, &f, cells) })
		},
	}
	fs, all := cmd.Flags(), pflag.NewFlagSet("", pflag.ContinueOnError)
	fs.SortFlags = false
	f.add(all)
	for _, name := range ofWork {
		fs.AddFlag(all.Lookup(name))
	}
	f.models, fs.Lookup("model").DefValue, fs.Lookup("model").Usage = nil, "[]", "the `MODEL`: a name of ipcbench list models, a size, or a file"
	for name, usage := range map[string]string{
		"up": "`WHAT` clients send back: model, lora[:RANK], or a model", "workers": "`N` workers train at the same time", "clients": "a round has `N` clients; a free worker takes the next one",
		"change": "`SHARE` of the words that a round changes: 2%, or 2%/rows for whole rows", "link": "`RATE` of a network between server and workers: 100Mbit, 1Gbit, unshaped, none",
	} {
		fs.Lookup(name).Usage = usage
	}
	fs.StringVar(&f.tls, "tls", "", "encrypt, with `MODE` on|mutual, what goes over sockets")
	fs.Lookup("tls").NoOptDefVal = "on"
	fs.StringSliceVar(&f.from, "from", nil, "predict from these `FILES`, which ipcbench run has written")
	fs.BoolVar(&f.foreign, "foreign", false, "predict from results of another machine too, for that one")
	fs.DurationVar(&f.calibrate, "calibrate", 0, "measure models like this one for `TIME` (default 1m without --from)")
	fs.IntVar(&f.verify, "verify", 0, "then measure the first `N` of the ranking, and print that beside what was predicted")
	fs.Lookup("verify").NoOptDefVal = "2"
	fs.StringVar(&f.format, "format", "text", "print the advice as `FORMAT`: text|json")
	fs.StringVar(&f.out, "out", "", "write what was measured to `FILE`, compressed if it ends in .gz")
	fs.BoolVarP(&f.quiet, "quiet", "q", false, "show no progress, and no line that names the result")
	note(fs, "out", harmful, "replaces a file")
	for _, other := range []string{"format", "verify"} { // in a file, they are those of a run, which have other values
		note(fs, other, ownLine)
	}
	f.settings = a.configurable(cmd)
	return cmd
}

// longestCalibration is more than anybody waits for.
const longestCalibration = 24 * time.Hour

// check reports flags that do not go together, and chooses where numbers come from.
func (f *adviseFlags) check(given func(string) bool) error {
	switch {
	case len(f.models) == 0:
		return hinted{usagef("--model is missing: want the model to advise on"), "ipcbench list models"}
	case f.format != "text" && f.format != "json":
		return usagef("--format %s: want text or json", f.format)
	case given("tls") && f.tls != "on" && f.tls != "mutual":
		return usagef("--tls=%s: want on or mutual", f.tls)
	case given("verify") && f.verify < 1:
		return usagef("--verify=%d: want at least 1", f.verify)
	case given("from") && given("calibrate"):
		return hinted{usagef("--from and --calibrate are given: want one of them"), "to predict from both, keep what --calibrate measures with --out, and give all files to --from"}
	case given("from") && (len(f.from) == 0 || slices.Contains(f.from, "")):
		return hinted{usagef("--from: a file is missing: want names with commas between them"), "ipcbench run writes them"}
	case given("calibrate") && (f.calibrate < time.Second || f.calibrate > longestCalibration):
		return hinted{usagef("--calibrate %v: want 1s to %v", f.calibrate, longestCalibration), "a minute tells enough of models up to some 100 MB"}
	case f.from == nil && f.foreign:
		return usagef("--foreign: there are no results: want --from, too")
	case f.from != nil && f.verify == 0 && f.out != "":
		return usagef("--out %s: with --from, nothing is measured: want --verify, too", f.out)
	}
	if f.from == nil && !given("calibrate") {
		f.calibrate = time.Minute
	}
	return nil
}

// asked returns the cells to predict: one for each transport and codec.
func (f *adviseFlags) asked(a *app) ([]bench.Spec, error) {
	cells, err := a.cells(f.cellFlags)
	if err != nil {
		return nil, err
	}
	first := cells[0]
	for flag, same := range map[string]func(bench.Spec) bool{
		"--model":   func(s bench.Spec) bool { return s.Model == first.Model },
		"--up":      func(s bench.Spec) bool { return s.Up == first.Up || s.Model != first.Model },
		"--workers": func(s bench.Spec) bool { return s.Workers == first.Workers },
		"--clients": func(s bench.Spec) bool { return s.Clients == first.Clients },
		"--change":  func(s bench.Spec) bool { return s.Change == first.Change },
		"--link":    func(bench.Spec) bool { return len(f.links) < 2 },
	} {
		if !slices.ContainsFunc(cells, func(s bench.Spec) bool { return !same(s) }) {
			continue
		}
		return nil, usagef("%s: several are given: an advice is for one", flag)
	}
	if rate := f.links; len(rate) == 1 && slices.ContainsFunc(cells, overLink) { // what does not go over it is no choice
		cells = slices.DeleteFunc(cells, func(s bench.Spec) bool { return !overLink(s) && s.Variant.Transport != a.host.Transports[0] })
	}
	encrypts := f.tls == ""
	for _, c := range cells {
		if _, peer := c.Variant.Transport.(*bench.Peer); peer {
			return nil, usagef("--transport %s: measures itself, and is not predicted: want transports of ipcbench list transports", c.Variant)
		}
		encrypts = encrypts || c.Variant.Settings["tls"] != ""
	}
	if !encrypts {
		return nil, hinted{usagef("--tls: nothing of --transport %s can encrypt", strings.Join(f.transports, ",")), "ipcbench list transports shows which have the setting tls"}
	}
	cells = slices.DeleteFunc(cells, func(c bench.Spec) bool { return c.Variant.Transport == a.host.Transports[0] })
	if len(cells) == 0 {
		return nil, usagef("--transport %s: is the control, which all are compared with: want others, too", strings.Join(f.transports, ","))
	}
	var once []bench.Spec
	for _, c := range cells {
		if !slices.ContainsFunc(once, func(d bench.Spec) bool { return d.String() == c.String() }) {
			once = append(once, c)
		}
	}
	return once, nil
}

func overLink(s bench.Spec) bool { return s.Link != (link.Rate{}) }

// advise predicts the cells, and presents that.
func (a *app) advise(ctx context.Context, f *adviseFlags, cells []bench.Spec) error {
	var misfits error
	var refused []analysis.Refusal
	var fit []bench.Spec
	var asked []bench.Cell
	for _, c := range cells {
		unfit := (*bench.Unfit)(nil)
		switch err := c.Check(bench.Plan{}); {
		case err == nil:
			fit, asked = append(fit, c), append(asked, c.Cell())
		case errors.As(err, &unfit):
			misfits = errors.Join(misfits, err)
			refused = append(refused, analysis.Refusal{Cell: c.Cell(), Why: unfit.Err})
		default:
			return usageError{err}
		}
	}
	if len(fit) == 0 {
		return usagef("--model %s: no transport can carry it: %w", cells[0].Model.Name, misfits)
	}
	m := measuring{app: a, adviseFlags: f}
	var err error
	if m.control, err = transports.NewVariant(a.host.Transports[0], nil); err != nil {
		return err
	}
	if f.out != "" {
		if m.out, err = outFile(f.out); err != nil {
			return err
		}
	}
	o := report.AdviceOptions{Text: a.terminal(), Sources: f.from}
	var results []*analysis.Result
	var runErr error
	if f.from == nil {
		if o.Sources, runErr = m.calibration(ctx, fit); m.result == nil {
			return runErr
		}
		results = []*analysis.Result{analysis.New(m.result)}
	} else if results, o.Foreign, err = f.read(); err != nil {
		return err
	}
	advice, err := analysis.Advise(results, asked)
	if err != nil {
		return errors.Join(runErr, usageError{err})
	}
	if runErr != nil && len(advice.Ranked) == 0 {
		return fmt.Errorf("%w: too little was measured to predict anything", runErr)
	}
	advice.Refused = append(advice.Refused, refused...)
	ranked := first(advice, fit, max(f.verify, 2))
	o.Verify = verifying(ranked)
	if f.verify > 0 && runErr == nil && len(ranked) > 0 {
		o.Verified, runErr = m.verified(ctx, ranked[:min(f.verify, len(ranked))])
	}
	var text bytes.Buffer
	write := report.WriteAdvice
	if f.format == "json" {
		write = report.WriteAdviceJSON
	}
	err = write(&text, advice, o)
	_, writeErr := a.out.Write(text.Bytes())
	if len(advice.Ranked) == 0 {
		runErr = hinted{errors.New("advise: no transport can be ranked, for the reasons above"), "--calibrate, without --from, measures what tells enough"}
	}
	return errors.Join(runErr, err, writeErr)
}

// read returns the results of --from, which are those of one machine, and in what this
// one differs from it.
func (f *adviseFlags) read() (results []*analysis.Result, foreign []string, err error) {
	here, others := machine.Read(), machine.Environment{}
	for i, path := range f.from {
		r, err := bench.ReadFile(path)
		if err != nil {
			return nil, nil, hinted{usagef("--from: %w", err), "ipcbench run --out FILE writes results"}
		}
		if slices.ContainsFunc(f.from[:i], func(other string) bool { return same(other, path) }) {
			return nil, nil, usagef("--from: %s stands there twice, and its cells would count twice", path)
		}
		var differ []string
		if i > 0 {
			for _, d := range analysis.OtherMachine(others, r.Environment) {
				differ = append(differ, fmt.Sprintf("%s: %s and %s", d.What, d.Base, d.Head))
			}
			if differ != nil {
				return nil, nil, usagef("--from: %s and %s are results of two machines, and an advice is for one: %s", f.from[0], path, strings.Join(differ, "; "))
			}
		} else {
			others = r.Environment
			for _, d := range analysis.OtherMachine(others, here) {
				foreign = append(foreign, fmt.Sprintf("%s: %s there, %s here", d.What, d.Base, d.Head))
			}
			if foreign != nil && !f.foreign {
				return nil, nil, hinted{usagef("--from %s: a result of another machine: %s", path, strings.Join(foreign, "; ")), "--foreign predicts from it all the same, or --calibrate measures here"}
			}
		}
		results = append(results, analysis.New(r))
	}
	return results, foreign, nil
}

// first returns the first of the ranking, of the cells that were asked for.
func first(advice *analysis.Advice, cells []bench.Spec, n int) (ranked []bench.Spec) {
	for _, f := range advice.Ranked[:min(n, len(advice.Ranked))] {
		if i := slices.IndexFunc(cells, func(s bench.Spec) bool { return s.String() == f.Cell.ID() }); i >= 0 {
			ranked = append(ranked, cells[i])
		}
	}
	return ranked
}

// verifying returns the command that measures cells of one model.
func verifying(cells []bench.Spec) string {
	if len(cells) == 0 {
		return ""
	}
	s, names, rate := cells[0], []string{}, ""
	for _, c := range cells {
		names = append(names, c.Variant.String())
		if c.Link != (link.Rate{}) {
			rate = c.Link.String()
		}
	}
	words := []string{called(os.Args[0]), "run", "--quick", "--transport", strings.Join(names, ","), "--model", s.Model.Name,
		"--workers", fmt.Sprint(s.Workers), "--clients", fmt.Sprint(s.Clients)}
	for _, of := range [][2]string{
		{"--up", s.Cell().Model.Up}, {"--change", s.Cell().Change}, {"--values", s.Cell().Values}, {"--link", rate},
	} {
		if of[1] != "" {
			words = append(words, of[:]...)
		}
	}
	for i, w := range words {
		if !bare.MatchString(w) {
			words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return doc.Lines(strings.Join(words, " "))
}

// bare are words that a shell takes as they are.
var bare = regexp.MustCompile(`^[\pL\pN_./:,=+%@-]+$`)
