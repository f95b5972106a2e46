package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"ipcbench/bench"
	"ipcbench/internal/agent"
	"ipcbench/report/doc"
)

func (a *app) agentCommand() *cobra.Command {
	var join string
	var o agent.Options
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Start worker processes on this host for a run on another one",
		Long:  help("agent"),
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return interruptible(func(ctx context.Context) error { return a.agent(ctx, join, o, os.Stdin) })
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&join, "join", "", "join the run of this `LINE`; - reads it from stdin")
	fs.StringVar(&o.Name, "name", "", "be called `NAME` in the run and in its result (default the host's name)")
	addDirs(fs, &o.Dirs)
	addWait(fs, &o.Wait)
	return cmd
}

func addDirs(fs *pflag.FlagSet, dirs *[]string) {
	fs.StringArrayVar(dirs, "allow-dir", nil, "let the run keep files below `DIR`, as storage:dir=DIR asks for")
	note(fs, harmful, "lets another host write files", "allow-dir")
}

// allowed returns the folders that --allow-dir names as servers name them: absolute.
func allowed(dirs []string) (all []string, err error) {
	for _, dir := range dirs {
		full, err := filepath.Abs(dir)
		if err != nil {
			return nil, err
		}
		if info, err := os.Stat(full); err != nil || !info.IsDir() {
			return nil, usagef("--allow-dir %s: want a folder that exists", dir)
		}
		all = append(all, full)
	}
	return all, nil
}

// addWait adds how long agents and their server wait for each other: engines start
// processes at different times, and people copy join lines.
func addWait(fs *pflag.FlagSet, wait *time.Duration) {
	fs.DurationVar(wait, "join-timeout", 2*time.Minute, "agents and their server wait for each other for this `TIME`")
}

func (a *app) agent(ctx context.Context, text string, o agent.Options, stdin *os.File) error {
	switch {
	case text == "":
		return hinted{usagef("--join is missing: want the join line of a run, or -"), "ipcbench run --listen ADDR --agents N prints it"}
	case text == "-":
		if term.IsTerminal(int(stdin.Fd())) {
			fmt.Fprintln(a.err, "paste the join line of the run, and press Enter:")
		}
		lines := make(chan string, 1)
		go func() { // waits for somebody who may rather press Ctrl-C
			line, _ := bufio.NewReader(io.LimitReader(stdin, 1<<12)).ReadString('\n') // an error leaves a part of a line, or nothing
			lines <- line
		}()
		select {
		case text = <-lines:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if text == "" {
			return usagef("--join -: no line comes from stdin")
		}
	}
	line, err := agent.ParseLine(text)
	if err != nil {
		return usagef("--join: %w", err)
	}
	if o.Name != "" {
		if err := agent.CheckName(o.Name); err != nil {
			return usagef("--name: %w", err)
		}
	}
	return a.serve(ctx, line, o)
}

// serve is an agent's life. It ends with the run's exit code.
func (a *app) serve(ctx context.Context, l agent.Line, o agent.Options) error {
	var err error
	if o.Dirs, err = allowed(o.Dirs); err != nil {
		return err
	}
	joined := false
	o.Joined = func() {
		if joined = true; a.rank == nil { // an engine's ranks end together
			fmt.Fprintf(a.err, "joined the run at %s; Ctrl-C ends it\n", l.Addr)
		}
	}
	code, err := agent.Join(ctx, l, o)
	switch {
	case !joined && errors.As(err, new(*net.OpError)):
		err = hinted{err, "is that run still waiting for agents? a firewall has to let TCP to " + l.Addr + " through"}
	case ctx.Err() != nil: // whatever the run has made of that
		err = context.Cause(ctx)
	case err == nil && code > 128:
		err = codeError{errors.New("the run was interrupted at its server"), code}
	case err == nil && code != 0:
		err = codeError{errors.New("the run has failed: its server says why"), code}
	}
	return err
}

// gathering says whether the workers of a run are on other hosts, and how these join.
type gathering struct {
	agent.Config
	ports portRange
	place placeList
}

func (g *gathering) add(fs *pflag.FlagSet) {
	fs.IntVar(&g.Agents, "agents", 0, "have the workers on the hosts of `N` agents, which join at --listen: see ipcbench agent; one on each, unless --workers says how many")
	addWait(fs, &g.Wait)
	fs.Var(&g.ports, "data-ports", "with --agents: workers reach servers at `FIRST-LAST`, ports of --listen's address (default any)")
	g.place.given = []string{"spread"}
	fs.Var(&g.place, "place", "with --agents: a `LIST` of where workers are: server|fill|spread, this host too; a host's processors first, or each host in turn")
}

// crew gives each host a worker, and each worker a client, unless flags say how many.
func (g *gathering) crew(f *cellFlags, given func(flag string) bool) {
	if g.Agents == 0 || given("workers") {
		return
	}
	hosts := g.Agents
	if g.place.Server {
		hosts++
	}
	f.workers = []string{strconv.Itoa(hosts)}
	if !given("clients") {
		f.clients = f.workers
	}
}

// gather waits for the agents of a run.
func (a *app) gather(ctx context.Context, f *runFlags, at netip.AddrPort) (*agent.Fleet, error) {
	g := f.gather
	if g.Announce == nil {
		g.Announce = func(l agent.Line) error {
			_, err := fmt.Fprintln(a.err, l)
			return err
		}
	}
	p := newProgress(a.err, f.quiet)
	if a.rank != nil && p != nil && p.width == nil { // what world it is stands in the first line
		p = nil
	}
	g.Listen, g.Joined = at, func(names []string, left time.Duration) { p.gathering(names, g.Agents, left) }
	g.Refused = func(err error) {
		if p != nil && a.rank == nil {
			p.clear()
			fmt.Fprintf(a.err, "ipcbench: an agent is refused: %s\n", doc.Lines(err.Error()))
		}
	}
	fleet, err := agent.Gather(ctx, g.Config)
	p.clear()
	if err != nil && a.rank == nil {
		err = fmt.Errorf("--agents: %w", err)
		if errors.As(err, new(agent.Late)) {
			err = hinted{err, "each other host takes the join line: ipcbench agent --join -; a firewall has to let TCP to --listen's port through"}
		}
	}
	if err != nil {
		return nil, errors.Join(err, fleet.Close(a.code(err)))
	}
	return fleet, nil
}

// placed settles where the workers of a run are, now that its agents have joined: cells
// that cannot be there are skipped or refused, and workers will get to the servers.
func placed(ctx context.Context, o *bench.Options, asked []bench.Spec, whole bool) (err error) {
	if o.Cells, o.Skipped, err = fitting(asked, whole, *o); err != nil {
		return usageError{err}
	}
	hosts, err := o.Hosts()
	if err == nil {
		err = hosts.Dial(ctx, *o)
	}
	if err != nil && ctx.Err() == nil {
		return hinted{usagef("--listen: agents do not get to %v, as their workers have to: %w", o.Listen.Addr(), err),
			"listen at an address that they reach, and let TCP to its ports through, or to those of --data-ports"}
	}
	return cmp.Or(context.Cause(ctx), err)
}
