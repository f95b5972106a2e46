package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ipcbench/bench"
	"ipcbench/report/doc"
	"ipcbench/serve"
	"ipcbench/tensor/models"
	"ipcbench/transports"
)

// serveFlags are what `ipcbench serve` was asked for.
type serveFlags struct {
	transport, model       string
	clients, lanes, rounds int
	seed                   uint64
	wait                   time.Duration
	listen                 string
	insecure               bool
	tls                    tlsFlags
	json, quiet            bool
}

func (a *app) serveCommand() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve rounds to a client of yours, in any language, and prove them",
		Long: strings.TrimSpace(`
Listen, and serve rounds to whoever joins with the session's secret: a client of
yours, in any language. Each update that it sends is compared with what the
worker function has to make of the model, and each new model with the reference
chain. docs/protocol.md says all that such a client has to know.

  ipcbench serve --transport grpc-stream --model uniform:64KiB/3
      prints where it listens, and in which files stands what a client needs
  ipcbench serve --transport http:network=tcp --workers 2 --clients 4 --rounds 9
      two clients at a time, each of which trains for two in every round
  ipcbench serve --transport shm-slab --json > contact.json
      prints what a client has to know as a line of JSON, and the result as
      another one

Transports are grpc-tensor, grpc-batch, grpc-stream, http, http-shm, shm-slab,
with their settings. Others are refused: only workers of ours speak them.

What is wrong ends the command with code 1, and a line that names the round, the
client and what was wrong with it: the tensor and the element of an update, say.
So does a client that leaves with a job in hand, and one that does not answer
within --wait.

The time of an update is that from the dispatch of its job until it was here, by
this process's clock, without the first one of each lane, which somebody had to
join. What of it was the way there, what training and what the way back, only a
worker of ours would say: see ipcbench run.

With --listen, the server listens over TCP at an address of this machine, and
with tls=mutual, unless another mode is named. The certificates are those of
--tls-ca, --tls-cert and --tls-key: docs/tls.md says how to make some.`),
		Args: noArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := f.options(a)
			if err != nil {
				return err
			}
			return interruptible(func(ctx context.Context) error { return a.serveRounds(ctx, f, o) })
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&f.transport, "transport", "grpc-stream", "one transport, by `NAME`; settings follow after colons")
	fs.StringVar(&f.model, "model", "cnn", "one model, by `NAME`, size or file: see ipcbench list models")
	fs.IntVar(&f.clients, "clients", 1, "train for `N` clients in each round; a free lane takes the next one")
	fs.IntVar(&f.lanes, "workers", 1, "have `N` lanes, for as many clients of yours at the same time")
	fs.IntVar(&f.rounds, "rounds", 3, "serve `N` rounds, and end")
	fs.Uint64Var(&f.seed, "seed", 1, "`NUMBER` from which data are made")
	fs.DurationVar(&f.wait, "wait", 2*time.Minute, "wait for each update for this `TIME`, and so for somebody to join")
	fs.StringVar(&f.listen, "listen", "", "listen at `ADDR` of this machine, with or without a port, over TCP and with tls=mutual")
	fs.BoolVar(&f.insecure, "insecure-network", false, "let --listen leave this machine without tls=mutual")
	note(fs, "insecure-network", harmful, "gives up encryption")
	f.tls.add(fs)
	fs.BoolVar(&f.json, "json", false, "print the contact, and the result, as a line of JSON each")
	fs.BoolVarP(&f.quiet, "quiet", "q", false, "show no progress")
	a.configurable(cmd)
	for flag, entry := range map[string]func(string) []string{"transport": a.spokenTexts, "model": oneModelTexts} {
		_ = cmd.RegisterFlagCompletionFunc(flag, func(_ *cobra.Command, _ []string, text string) ([]string, cobra.ShellCompDirective) {
			if strings.Contains(text, ",") { // there is one alone
				return none(text)
			}
			return list(entry)(text)
		})
	}
	return cmd
}

// spokenTexts completes a transport that is served, without a codec.
func (a *app) spokenTexts(text string) []string {
	names := serve.Spoken(a.host.Transports)
	name, _, more := strings.Cut(text, ":")
	switch {
	case !more:
		return names
	case !slices.Contains(names, name):
		return nil
	}
	return slices.DeleteFunc(a.variantTexts(text), func(t string) bool { return strings.Contains(t, ":codec=") })
}

// options returns what the flags ask for, if a client can take part in that.
func (f *serveFlags) options(a *app) (o serve.Options, err error) {
	if f.rounds < 1 {
		return o, usagef("--rounds %d: want at least 1", f.rounds)
	}
	if f.wait <= 0 {
		return o, usagef("--wait %v: want a positive time", f.wait)
	}
	v, err := parse(f.transport, a.host.Transports)
	if err != nil {
		return o, err
	}
	if err := serve.Check(v); err != nil {
		return o, hinted{usagef("--transport %s: %w", f.transport, err), "want one of " + strings.Join(serve.Spoken(a.host.Transports), ", ") + ", without a codec"}
	}
	at := cellFlags{transports: []string{f.transport}, listen: f.listen, insecure: f.insecure}
	v = with(v, f.transport, at.settings())
	if err := at.listening([]transports.Variant{v}); err != nil {
		return o, err
	}
	files, err := f.tls.files([]bench.Spec{{Variant: v}})
	if err != nil {
		return o, err
	}
	if v.Settings["tls"] == "mutual" && files == nil {
		return o, hinted{usagef("--transport %s: with tls=mutual, clients show certificates, and the session signs none for yours", v),
			"give --tls-ca, --tls-cert and --tls-key; or tls=on, or off, where only this machine can connect"}
	}
	model, err := models.Parse(f.model)
	if err != nil {
		return o, namedModel("--model", f.model, err)
	}
	cell := bench.Spec{Variant: v, Model: model, Workers: f.lanes, Clients: f.clients, PerProcess: 1, Depth: 1}
	if err := cell.CheckServer(); err != nil {
		return o, usageError{err}
	}
	return serve.Options{
		Variant: v, Model: model, Clients: f.clients, Lanes: f.lanes, Rounds: f.rounds, Seed: f.seed, Wait: f.wait,
		Host: f.listen, Insecure: f.insecure, Files: files,
	}, nil
}

// oneModelTexts completes a model, and no sweep of sizes.
func oneModelTexts(text string) []string {
	return slices.DeleteFunc(modelTexts(text), func(t string) bool {
		return strings.HasPrefix(t, "uniform:") && strings.Contains(t, "..")
	})
}

// served is the result.
type served struct {
	Rounds  int    `json:"rounds"`
	Updates int    `json:"updates"` // all of them proved
	Hash    string `json:"hash"`    // of the last model
	Times   *times `json:"update_ns,omitempty"`
	trips   []time.Duration
}

// times are how long updates took.
type times struct {
	Least  time.Duration `json:"least"`
	Median time.Duration `json:"median"`
	Most   time.Duration `json:"most"`
}

func (t *times) String() string {
	text := func(d time.Duration) string { return doc.Quantity("s", d.Seconds()) }
	return fmt.Sprintf("%s in the median, %s to %s", text(t.Median), text(t.Least), text(t.Most))
}

// add adds a round that was served.
func (r *served) add(round serve.Round, clients int) {
	r.Rounds, r.Updates, r.Hash = r.Rounds+1, r.Updates+clients, round.Hash
	r.trips = append(r.trips, round.Trips...)
}

// end says how long updates took, when all are there.
func (r *served) end() {
	if n := len(r.trips); n > 0 {
		slices.Sort(r.trips)
		r.Times = &times{Least: r.trips[0], Median: (r.trips[(n-1)/2] + r.trips[n/2]) / 2, Most: r.trips[n-1]}
	}
}

// serveRounds serves, and prints the contact before and the result after it.
func (a *app) serveRounds(ctx context.Context, f serveFlags, o serve.Options) error {
	s, err := serve.Open(ctx, o)
	if err != nil {
		return err
	}
	c := s.Contact()
	if f.json {
		err = doc.WriteJSON(a.out, map[string]serve.Contact{"contact": c}, "")
	} else {
		_, err = fmt.Fprintf(a.out, "%s at %s, %s\nwhat a client has to know: %s\naddress and secret: %s\n", c.Transport, c.Address, lanesText(o.Lanes), s.ContactFile(), c.AddressFile)
	}
	p := newProgress(a.err, f.quiet)
	var all served
	if err == nil { // else nobody knows where to join
		err = s.Run(ctx, func(r serve.Round) {
			all.add(r, o.Clients)
			if p != nil && p.width != nil {
				p.put(fmt.Sprintf("round %d of %d: all proved", all.Rounds, o.Rounds))
			}
		})
	}
	p.clear()
	ended := err == nil
	all.end()
	switch {
	case ended && f.json:
		err = doc.WriteJSON(a.out, map[string]served{"result": all}, "")
	case ended:
		fmt.Fprintf(a.out, "%s with %s: all proved, and the hash of each model; that of the last one is %s\n",
			doc.Plural(all.Rounds, "round"), doc.Plural(all.Updates, "update"), all.Hash)
		if all.Times != nil {
			fmt.Fprintf(a.out, "an update took %v, from the dispatch of its job on\n", all.Times)
		}
	}
	err = errors.Join(err, s.Close(ended))
	if errors.As(err, new(serve.Late)) {
		err = hinted{err, "--wait says how long each update is waited for"}
	}
	return err
}

// lanesText names the lanes.
func lanesText(n int) string {
	if n == 1 {
		return "lane 0"
	}
	return fmt.Sprintf("lanes 0 to %d", n-1)
}
