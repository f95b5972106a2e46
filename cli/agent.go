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

	"ipcbench/bench"
	"ipcbench/bench/session"
	"ipcbench/internal/agent"
	"ipcbench/report/doc"
)

func (a *app) agentCommand() *cobra.Command {
	var join string
	var o agent.Options
	cmd := &cobra.Command{
		Use:  "agent",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return interruptible(func(ctx context.Context) error { return a.agent(ctx, join, o, os.Stdin) })
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&join, "join", "", "join the run of this join `LINE`; - reads it from stdin")
	fs.StringVar(&o.Name, "name", "", "`NAME` of this host in the run and its result (default its host name)")
	addDirs(fs, &o.Dirs)
	fs.BoolVar(&o.Insecure, "insecure-network", false, "let the run use transports without tls=mutual")
	addWait(fs, &o.Wait)
	return cmd
}

func addDirs(fs *pflag.FlagSet, dirs *[]string) {
	fs.StringArrayVar(dirs, "allow-dir", nil, "let the run keep files below `DIR`, for storage:dir=DIR")
}

// allowed returns the directories of --allow-dir as absolute paths, as servers name them. It
// is an error if one does not exist.
func allowed(dirs []string) (all []string, err error) {
	for _, dir := range dirs {
		full, err := filepath.Abs(dir)
		if err != nil {
			return nil, err
		}
		if info, err := os.Stat(full); err != nil || !info.IsDir() {
			return nil, usagef("--allow-dir %s: must be an existing directory", dir)
		}
		all = append(all, full)
	}
	return all, nil
}

// addWait adds --join-timeout. Agents and their server must wait for each other, because
// engines start processes at different times, and people copy join lines.
func addWait(fs *pflag.FlagSet, wait *time.Duration) {
	fs.DurationVar(wait, "join-timeout", 2*time.Minute, "`TIME` that agents and their server wait for each other")
}

func (a *app) agent(ctx context.Context, text string, o agent.Options, stdin *os.File) error {
	switch {
	case text == "":
		return hinted{usagef("--join is missing: it must be the join line of a run, or -"), "ipcbench run --listen ADDR --agents N prints it"}
	case text == "-":
		if isTerminal(stdin) {
			fmt.Fprintln(a.err, "paste the join line of the run, and press Enter:")
		}
		lines := make(chan string, 1)
		go func() { // cannot be interrupted, so Ctrl-C must not wait for it
			line, _ := bufio.NewReader(io.LimitReader(stdin, 1<<12)).ReadString('\n') // after an error, the line is incomplete or empty
			lines <- line
		}()
		select {
		case text = <-lines:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if text == "" {
			return usagef("--join -: there is no line on stdin")
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

// serve joins the run at l as an agent and returns when the run ends, with its exit code.
func (a *app) serve(ctx context.Context, l agent.Line, o agent.Options) error {
	var err error
	if o.Dirs, err = allowed(o.Dirs); err != nil {
		return err
	}
	joined := false
	o.Joined = func() {
		if joined = true; a.rank == nil { // ranks get no such line: their engine ends them together
			fmt.Fprintf(a.err, "joined the run at %s; Ctrl-C ends it\n", l.Addr)
		}
	}
	code, err := agent.Join(ctx, l, o)
	switch {
	case !joined && errors.As(err, new(*net.OpError)):
		err = hinted{err, "is that run still waiting for agents? a firewall must allow TCP to " + l.Addr}
	case ctx.Err() != nil: // the signal is the cause, whichever error followed
		err = context.Cause(ctx)
	case err == nil && code > 128:
		err = codeError{errors.New("the run was interrupted at its server"), code}
	case err == nil && code != 0:
		err = codeError{errors.New("the run has failed: see the output of its server"), code}
	}
	return err
}

// gathering has the flags for workers on other hosts.
type gathering struct {
	agent.Config
	ports portRange
	place placeList
}

func (g *gathering) add(fs *pflag.FlagSet) {
	fs.IntVar(&g.Agents, "agents", 0, "run workers on the hosts of `N` agents, which join at --listen")
	addWait(fs, &g.Wait)
	fs.Var(&g.ports, "data-ports", "let workers connect to ports `FIRST-LAST` only (default any)")
	g.place.given = []string{"spread"}
	fs.Var(&g.place, "place", "`LIST` of spread or fill, and server: hosts of the workers")
}

// defaultCounts sets one worker per host, and one client per worker, unless flags say otherwise.
func (g *gathering) defaultCounts(f *cellFlags, given func(flag string) bool) {
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

// gather waits until all agents of the run have joined at address at. A nil fleet comes with
// an error.
func (a *app) gather(ctx context.Context, f *runFlags, at netip.AddrPort) (*agent.Fleet, error) {
	g := f.gather
	if g.Announce == nil {
		g.Announce = func(l agent.Line) error {
			_, err := fmt.Fprintf(a.err, "on each other host, run ipcbench agent --join - and paste this line:\n%s\n", l)
			return err
		}
	}
	p := newProgress(a.err, f.quiet)
	if a.rank != nil && p != nil && p.width == nil { // the first line of a world's run, from joined, names its ranks
		p = nil
	}
	g.Listen, g.Joined = at, func(names []string, left time.Duration) { p.gathering(names, g.Agents, left) }
	g.Refused = func(err error) {
		if p != nil && a.rank == nil {
			p.clear()
			fmt.Fprintf(a.err, "ipcbench: rejected an agent: %s\n", doc.Lines(err.Error()))
		}
	}
	fleet, err := agent.Gather(ctx, g.Config)
	p.clear()
	if err != nil && a.rank == nil {
		err = fmt.Errorf("--agents: %w", err)
		if errors.As(err, new(agent.Late)) {
			err = hinted{err, "run ipcbench agent --join - on each other host, with the join line; a firewall must allow TCP to the port of --listen"}
		}
	}
	if err != nil {
		return nil, errors.Join(err, fleet.Close(a.code(err)))
	}
	return fleet, nil
}

// placeWorkers skips or rejects asked cells that the hosts of the joined agents cannot run, and
// checks that agents can connect to the address of the servers. With strict, it rejects instead
// of skipping.
func placeWorkers(ctx context.Context, o *bench.Options, asked []session.Spec, strict bool) (err error) {
	if o.Cells, o.Skipped, err = fitting(asked, strict, *o); err != nil {
		return usageError{err}
	}
	hosts, err := o.Hosts()
	if err == nil {
		err = hosts.Dial(ctx, o.Listening)
	}
	if err != nil && ctx.Err() == nil {
		return hinted{usagef("--listen: agents cannot reach %v, which their workers need: %w", o.Listen.Addr(), err),
			"listen at an address that they can reach, and allow TCP to its ports or to --data-ports"}
	}
	return cmp.Or(context.Cause(ctx), err)
}
