package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ipcbench/internal/agent"
	"ipcbench/internal/world"
	"ipcbench/report/doc"
)

func (a *app) worldCommand() *cobra.Command {
	r := &rank{app: a, remove: func() error { return nil }}
	cmd := &cobra.Command{
		Use:       "world [flags] run FLAGS",
		ValidArgs: []string{"run"},
		Args:      refuse("world: the argument must be run, not %q", "ipcbench world run FLAGS, with the flags of ipcbench run"),
		RunE:      func(cmd *cobra.Command, args []string) error { return cmd.Help() },
	}
	fs := cmd.PersistentFlags()
	fs.SortFlags = false
	fs.StringVar(&r.file, "rendezvous", "", "pass the join line in `FILE`, in a folder that all ranks share")
	fs.StringVar(&r.addr, "addr", "", "address of rank 0, `HOST:PORT`, with IPCBENCH_TOKEN")
	addDirs(fs, &r.dirs)
	cmd.AddCommand(r.command())
	return cmd
}

// A rank is this process as a member of a world.
type rank struct {
	*world.World
	app        *app
	file, addr string
	dirs       []string
	token      string
	host       string
	insecure   bool // allow transports without mutual TLS

	asked  *runFlags    // flags of rank 0; nil once the others can join
	remove func() error // removes the file of --rendezvous
}

// command returns the run command of a world: rank 0 measures, the other ranks are its agents.
func (r *rank) command() *cobra.Command {
	run := r.app.runCommand()
	run.Hidden = true // ipcbench run has the same help
	explain(run, run)
	of := run.RunE
	run.RunE = func(cmd *cobra.Command, args []string) error { return r.end(of(cmd, args)) }
	w, err := world.Find(os.Getenv)
	if w == nil {
		run.Args = func(*cobra.Command, []string) error { return errNoRank(err) }
		return run
	}
	r.World, r.host = w, cmp.Or(w.Host, agent.HostName())
	run.Args = func(cmd *cobra.Command, args []string) error {
		r.app.rank = r
		return noArgs(cmd, args)
	}
	if w.Rank > 0 {
		r.agent(run)
	}
	return run
}

// errNoRank returns the error for a process without a rank. err is the reason, if known.
func errNoRank(err error) error {
	if err != nil {
		return usageError{err}
	}
	hint := "mpirun -np 3 ipcbench world run … starts three ranks; ipcbench world --help says more"
	if os.Getenv("SLURM_JOB_ID") != "" {
		hint = "this is a Slurm job, not a step: use srun ipcbench world run …"
	}
	return hinted{usagef("world: no engine has started this process, so it has no rank"), hint}
}

// agent turns run into an agent. All ranks have the same flags, but only rank 0 validates
// them. An agent reads only --join-timeout, --insecure-network, and --dry-run, with which
// there is no run to join.
func (r *rank) agent(run *cobra.Command) {
	run.Flags().VisitAll(func(f *pflag.Flag) { f.Value = lenient{f.Value} })
	run.FParseErrWhitelist.UnknownFlags = true
	run.Args, run.PreRunE = cobra.ArbitraryArgs, nil
	run.RunE = func(cmd *cobra.Command, _ []string) error {
		r.app.rank = r
		dry, _ := cmd.Flags().GetBool("dry-run") // the flag exists
		if dry {
			return nil
		}
		wait, _ := cmd.Flags().GetDuration("join-timeout")      // the flag exists
		r.insecure, _ = cmd.Flags().GetBool("insecure-network") // likewise
		err := interruptible(func(ctx context.Context) error { return r.serve(ctx, wait) })
		if errors.As(err, new(codeError)) || errors.As(err, new(interrupted)) { // rank 0 prints the reason, or a signal reached all ranks
			err = codeError{errors.New(""), r.app.code(err)}
		} else if err != nil {
			err = codeError{fmt.Errorf("rank %d on %s: %v", r.Rank, r.host, err), r.app.code(err)} // only rank 0 prints hints
		}
		return err
	}
}

// lenient is a flag's value that accepts any text.
type lenient struct{ pflag.Value }

func (l lenient) Set(text string) error {
	_ = l.Value.Set(text) // rank 0 reports errors
	return nil
}

// checkSingle returns an error if an engine has started ipcbench run several times on one host. The
// runs would disturb each other and look like one result. On several hosts, it warns.
func (a *app) checkSingle() error {
	w, err := world.Find(os.Getenv)
	if a.rank != nil || err != nil || w == nil { // only a complete description of a world counts
		return nil
	}
	what := fmt.Sprintf("%s: this was started %d times, and each would be a run of its own", w.By, w.Size)
	const try = "ipcbench world run … is one run over all of them"
	if w.OneHost() {
		return hinted{usagef("run: %s, on the same host", what), try}
	}
	fmt.Fprintf(a.err, "warning: %s: %s\n", what, try)
	return nil
}

// setUp prepares rank 0: it determines how the other ranks join, and sets the run's flags for
// agents.
func (r *rank) setUp(f *runFlags, given func(flag string) bool) error {
	if err := r.meet(); err != nil {
		return err
	}
	f.gather.Agents, f.gather.Token = r.Size-1, r.token
	f.gather.Announce = r.announce
	r.asked = f
	err := r.listen(f)
	if err == nil && given("agents") {
		err = usagef("--agents must not be given: %s has already started %d in addition to rank 0", r.By, r.Size-1)
	}
	return err
}

// meet determines how ranks find rank 0: with a file, or with a token and an address.
func (r *rank) meet() error {
	r.token = os.Getenv(tokenVariable)
	os.Unsetenv(tokenVariable) // worker processes must not get it
	r.addr = cmp.Or(r.addr, os.Getenv(addrVariable))
	if host, port := os.Getenv("MASTER_ADDR"), os.Getenv("MASTER_PORT"); r.addr == "" && host != "" && port != "" {
		r.addr = net.JoinHostPort(host, port)
	}
	if r.addr != "" {
		if err := agent.CheckAddr(r.addr); err != nil {
			return usagef("--addr: %w", err)
		}
	}
	switch where := cmp.Or(r.First, "HOST") + ":7117"; {
	case r.token != "" && r.file != "":
		return usagef("--rendezvous and %s cannot be combined", tokenVariable)
	case r.token != "" && r.addr == "":
		return hinted{usagef("%s: the address of rank 0 is missing", tokenVariable), "add --addr " + where + ", with the host of rank 0 and a port that is free there"}
	case r.token != "":
		if err := agent.CheckToken(r.token); err != nil {
			return usagef("%s: %w", tokenVariable, err)
		}
	case r.file != "" && r.Job == "":
		return hinted{usagef("--rendezvous: %s does not name jobs, so two jobs could use the same file", r.By), r.addToken(where)}
	case r.file != "":
	case r.OneHost() && r.Job != "":
		r.file = world.Private(r.Job)
	case r.Job == "":
		return hinted{usagef("world: ranks have no way to find rank 0 and to prove that they belong to it"), r.addToken(where)}
	default:
		return hinted{usagef("world: ranks on several hosts have no way to find rank 0 and to prove that they belong to it"),
			"ipcbench world --rendezvous FILE run …, with a FILE in a folder that all hosts share; or " + r.addToken(where)}
	}
	return nil
}

// addToken returns the hint for giving all ranks a token.
func (r *rank) addToken(where string) string {
	if r.By == "Open MPI" { // ssh does not pass variables on
		return fmt.Sprintf("export %s=$(openssl rand -hex 16), and mpirun -x %[1]s -x %s=%s …", tokenVariable, addrVariable, where)
	}
	return fmt.Sprintf("export %s=$(openssl rand -hex 16) %s=%s, for all ranks", tokenVariable, addrVariable, where)
}

// listen sets --listen of the run, if not given, to the address at which rank 0 listens for
// agents and workers.
func (r *rank) listen(f *runFlags) error {
	host, port, _ := net.SplitHostPort(r.addr) // valid if not empty
	all := ourAddresses()
	outer := all[:len(all)-1] // the last one is 127.0.0.1
	only := slices.DeleteFunc(slices.Clone(outer), func(a string) bool { return strings.Contains(a, ":") })
	if len(only) == 0 { // prefer IPv4: a host may have several IPv6 addresses for each IPv4 address
		only = outer
	}
	if !r.OneHost() && host != "localhost" && host != "127.0.0.1" {
		all = outer // some hosts resolve their own name to a loopback address
	}
	f.listen = cmp.Or(f.listen, ownAddress(host, all))
	if r.OneHost() {
		f.listen = cmp.Or(f.listen, "127.0.0.1")
	}
	if f.listen = cmp.Or(f.listen, ownAddress(r.First, outer)); f.listen == "" && len(only) == 1 {
		f.listen = only[0]
	}
	if f.listen == "" {
		return hinted{usagef("--listen is missing: %s, the host of rank 0, does not have exactly one address that other hosts can reach", r.host),
			"after run, add --listen " + strings.Join(append(outer, "127.0.0.1"), ", or ")}
	}
	at, err := f.listens()
	if err == nil && at.Port() == 0 && port != "" {
		f.listen = net.JoinHostPort(at.Addr().String(), port)
	}
	return err
}

// ownAddress returns the first address of host that is in addresses, or an empty string.
func ownAddress(host string, addresses []string) string {
	if host == "" {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	found, _ := net.DefaultResolver.LookupNetIP(ctx, "ip", host) // an unknown name has no address
	for _, ip := range found {
		if text := ip.Unmap().String(); slices.Contains(addresses, text) {
			return text
		}
	}
	return ""
}

// announce writes the join line for the other ranks, if they meet in a file.
func (r *rank) announce(l agent.Line) error {
	r.asked = nil
	if r.file == "" { // the ranks already have token and address
		return nil
	}
	remove, err := world.Offer(r.file, r.Job, l.String())
	if err != nil {
		return usagef("--rendezvous: %w", err)
	}
	r.remove = remove
	return nil
}

// joined prints the ranks and hosts of the world, before other output.
func (r *rank) joined(fleet *agent.Fleet) {
	_ = r.remove() // the file is useless now, because the fleet is complete
	hosts, names := map[string]bool{r.host: true}, ""
	for _, a := range fleet.Agents() {
		hosts[strings.TrimSuffix(a.Name(), fmt.Sprintf(".%d", a.Self().Rank))] = true
		names += ", " + a.Name()
	}
	fmt.Fprintf(r.app.err, "%d ranks on %s: %s (server)%s (%s)\n", r.Size, doc.Plural(len(hosts), "host"), r.host, names, r.By)
}

// serve runs an agent of the world: it waits for rank 0, for at most wait, and joins its run.
func (r *rank) serve(ctx context.Context, wait time.Duration) error {
	deadline := time.Now().Add(wait)
	if err := r.meet(); err != nil {
		return err
	}
	line := agent.Line{Addr: r.addr, Token: r.token}
	if r.file != "" {
		soon, cancel := context.WithDeadlineCause(ctx, deadline, fmt.Errorf("waited for %v: is it in a folder that all ranks share?", wait))
		defer cancel()
		text, err := world.Await(soon, r.file, r.Job)
		if err == nil {
			line, err = agent.ParseLine(text)
		}
		if err != nil {
			return fmt.Errorf("--rendezvous: %w", err)
		}
	}
	o := agent.Options{Name: r.host, Rank: r.Rank, Dirs: r.dirs, Insecure: r.insecure, Wait: time.Until(deadline)}
	if !r.Alone() {
		o.Name = fmt.Sprintf("%s.%d", r.host, r.Rank)
	}
	return r.app.serve(ctx, line, o)
}

// farewellTime is how long a failing rank 0 waits for ranks that have not joined, to tell them
// its exit code. With most engines, they would otherwise wait until --join-timeout.
const farewellTime = 3 * time.Second

// end returns the error of rank 0 after ending all other ranks.
func (r *rank) end(err error) error {
	if f := r.asked; err != nil && f != nil && !errors.As(err, new(interrupted)) {
		ctx, stop := untilSignal(context.Background())
		defer stop()
		f.gather.Wait = min(f.gather.Wait, farewellTime)
		if at, e := f.listens(); e == nil {
			if fleet, e := r.app.gather(ctx, f, at); e == nil {
				_ = fleet.Close(r.app.code(err)) // a rank that cannot be reached has ended
			}
		}
	}
	return errors.Join(err, r.remove())
}
