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
		Short:     "Run over the hosts on which mpirun, srun or Kubernetes starts this",
		Long:      help("world"),
		Args:      refuse("world: want run, and not %q", "ipcbench world run FLAGS, with the flags of ipcbench run"),
		RunE:      func(cmd *cobra.Command, args []string) error { return cmd.Help() },
	}
	fs := cmd.PersistentFlags()
	fs.SortFlags = false
	fs.StringVar(&r.file, "rendezvous", "", "the ranks meet in `FILE`, which they all can reach, and nobody else")
	fs.StringVar(&r.addr, "addr", "", "with IPCBENCH_TOKEN: rank 0 is joined at `HOST:PORT`")
	addDirs(fs, &r.dirs)
	cmd.AddCommand(r.command())
	return cmd
}

// A rank is this process, as one of a world.
type rank struct {
	*world.World
	app        *app
	file, addr string
	dirs       []string
	token      string
	host       string

	asked  *runFlags    // of rank 0, while no other one may join it
	remove func() error // the file in which the ranks meet
}

// command returns the run of a world: rank 0 does it, and the others are its agents.
func (r *rank) command() *cobra.Command {
	run := r.app.runCommand()
	run.Hidden = true // its page is that of ipcbench run
	of := run.RunE
	run.RunE = func(cmd *cobra.Command, args []string) error { return r.end(of(cmd, args)) }
	w, err := world.Find(os.Getenv)
	if w == nil {
		run.Args = func(*cobra.Command, []string) error { return outside(err) }
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

// outside says why this process has no rank.
func outside(err error) error {
	if err != nil {
		return usageError{err}
	}
	hint := "mpirun -np 3 ipcbench world run … starts three ranks; ipcbench world --help says more"
	if os.Getenv("SLURM_JOB_ID") != "" {
		hint = "this is a job of Slurm and no step: srun ipcbench world run …"
	}
	return hinted{usagef("world: no engine has started this process, so that it has no rank"), hint}
}

// agent makes an agent of a run. All ranks have the same flags, and rank 0 alone judges
// them. The others only have to know how long to wait, and whether there is nothing to
// wait for.
func (r *rank) agent(run *cobra.Command) {
	run.Flags().VisitAll(func(f *pflag.Flag) { f.Value = lenient{f.Value} })
	run.FParseErrWhitelist.UnknownFlags = true
	run.Args, run.PreRunE = cobra.ArbitraryArgs, nil
	run.RunE = func(cmd *cobra.Command, _ []string) error {
		r.app.rank = r
		dry, _ := cmd.Flags().GetBool("dry-run") // it has that flag
		if dry {
			return nil
		}
		wait, _ := cmd.Flags().GetDuration("join-timeout") // and this one
		err := interruptible(func(ctx context.Context) error { return r.serve(ctx, wait) })
		if errors.As(err, new(codeError)) || errors.As(err, new(interrupted)) { // rank 0 says why, or a signal came to all
			err = codeError{errors.New(""), r.app.code(err)}
		} else if err != nil {
			err = codeError{fmt.Errorf("rank %d on %s: %v", r.Rank, r.host, err), r.app.code(err)} // hints are left to rank 0
		}
		return err
	}
}

// lenient is a flag's value that refuses nothing.
type lenient struct{ pflag.Value }

func (l lenient) Set(text string) error {
	_ = l.Value.Set(text) // rank 0 says what is wrong
	return nil
}

// single keeps a run alone that an engine has started several times: those of one host
// would disturb each other, and be read as one result.
func (a *app) single() error {
	w, err := world.Find(os.Getenv)
	if a.rank != nil || err != nil || w == nil { // what does not look like a world is none
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

// enlist makes the ranks' run of what rank 0 was asked for.
func (r *rank) enlist(f *runFlags, given func(flag string) bool) error {
	if err := r.meet(); err != nil {
		return err
	}
	f.gather.Agents, f.gather.Token = r.Size-1, r.token
	f.gather.Announce = r.announce
	r.asked = f
	err := r.listen(f)
	if err == nil && given("agents") {
		err = usagef("--agents: %s says how many there are: %d besides rank 0", r.By, r.Size-1)
	}
	return err
}

// meet settles how ranks find rank 0: by a file, or by a token and an address.
func (r *rank) meet() error {
	r.token = os.Getenv(tokenVariable)
	os.Unsetenv(tokenVariable) // no business of worker processes
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
		return usagef("--rendezvous and %s are given: want one of them", tokenVariable)
	case r.token != "" && r.addr == "":
		return hinted{usagef("%s: nothing says where rank 0 is joined", tokenVariable), "add --addr " + where + ", with the host of rank 0 and a port that is free there"}
	case r.token != "":
		if err := agent.CheckToken(r.token); err != nil {
			return usagef("%s: %w", tokenVariable, err)
		}
	case r.file != "" && r.Job == "":
		return hinted{usagef("--rendezvous: %s has no name for a job, so that two might meet in one file", r.By), r.addToken(where)}
	case r.file != "":
	case r.OneHost() && r.Job != "":
		r.file = world.Private(r.Job)
	case r.Job == "":
		return hinted{usagef("world: nothing says how ranks find rank 0, and prove that they belong to it"), r.addToken(where)}
	default:
		return hinted{usagef("world: nothing says how ranks on several hosts find rank 0, and prove that they belong to it"),
			"ipcbench world --rendezvous FILE run …, with a FILE that all hosts can reach; or " + r.addToken(where)}
	}
	return nil
}

// addToken says how to give all ranks a token.
func (r *rank) addToken(where string) string {
	if r.By == "Open MPI" { // ssh takes no variables along
		return fmt.Sprintf("export %s=$(openssl rand -hex 16), and mpirun -x %[1]s -x %s=%s …", tokenVariable, addrVariable, where)
	}
	return fmt.Sprintf("export %s=$(openssl rand -hex 16) %s=%s, for all ranks", tokenVariable, addrVariable, where)
}

// listen settles at which address of this host rank 0 is joined, and serves.
func (r *rank) listen(f *runFlags) error {
	host, port, _ := net.SplitHostPort(r.addr) // which was checked, if it is there
	all := ourAddresses()
	outer := all[:len(all)-1] // the last one is 127.0.0.1
	only := slices.DeleteFunc(slices.Clone(outer), func(a string) bool { return strings.Contains(a, ":") })
	if len(only) == 0 { // a host may have several addresses of IPv6 for each of IPv4
		only = outer
	}
	if !r.OneHost() && host != "localhost" && host != "127.0.0.1" {
		all = outer // some hosts know their own name as that of the loopback interface
	}
	f.listen = cmp.Or(f.listen, ownAddress(host, all))
	if r.OneHost() {
		f.listen = cmp.Or(f.listen, "127.0.0.1")
	}
	if f.listen = cmp.Or(f.listen, ownAddress(r.First, outer)); f.listen == "" && len(only) == 1 {
		f.listen = only[0]
	}
	if f.listen == "" {
		return hinted{usagef("--listen is missing: %s, the host of rank 0, has not one address, and others have to reach it", r.host),
			"behind run, --listen " + strings.Join(append(outer, "127.0.0.1"), ", or ")}
	}
	at, err := f.listens()
	if err == nil && at.Port() == 0 && port != "" {
		f.listen = net.JoinHostPort(at.Addr().String(), port)
	}
	return err
}

// ownAddress returns that one of the addresses which host has, if it has one.
func ownAddress(host string, addresses []string) string {
	if host == "" {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	found, _ := net.DefaultResolver.LookupNetIP(ctx, "ip", host) // a name that nobody knows has none
	for _, ip := range found {
		if text := ip.Unmap().String(); slices.Contains(addresses, text) {
			return text
		}
	}
	return ""
}

// announce tells the other ranks how to join.
func (r *rank) announce(l agent.Line) error {
	r.asked = nil
	if r.file == "" { // they know
		return nil
	}
	remove, err := world.Offer(r.file, r.Job, l.String())
	if err != nil {
		return usagef("--rendezvous: %w", err)
	}
	r.remove = remove
	return nil
}

// joined says what the world is, before anything else is said.
func (r *rank) joined(fleet *agent.Fleet) {
	_ = r.remove() // it is of no use any more: who finds it is refused
	hosts, names := map[string]bool{r.host: true}, ""
	for _, a := range fleet.Agents() {
		hosts[strings.TrimSuffix(a.Name(), fmt.Sprintf(".%d", a.Self().Rank))] = true
		names += ", " + a.Name()
	}
	fmt.Fprintf(r.app.err, "%d ranks on %s: %s (server)%s (%s)\n", r.Size, doc.Plural(len(hosts), "host"), r.host, names, r.By)
}

// serve is what an agent does.
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
	o := agent.Options{Name: r.host, Rank: r.Rank, Dirs: r.dirs, Wait: time.Until(deadline)}
	if !r.Alone() {
		o.Name = fmt.Sprintf("%s.%d", r.host, r.Rank)
	}
	return r.app.serve(ctx, line, o)
}

// dismissal is how long a rank 0 that fails before the others have joined waits for
// them, to tell them so. Most engines would have them wait for nothing.
const dismissal = 3 * time.Second

// end is how rank 0 ends: no rank goes on without it.
func (r *rank) end(err error) error {
	if f := r.asked; err != nil && f != nil && !errors.As(err, new(interrupted)) {
		ctx, stop := untilSignal(context.Background())
		defer stop()
		f.gather.Wait = min(f.gather.Wait, dismissal)
		if at, e := f.listens(); e == nil {
			if fleet, e := r.app.gather(ctx, f, at); e == nil {
				_ = fleet.Close(r.app.code(err)) // who does not hear it, has gone
			}
		}
	}
	return errors.Join(err, r.remove())
}
