package report

import (
	"fmt"
	"slices"

	"ipcbench/bench"
	"ipcbench/report/analysis"
	"ipcbench/report/doc"
)

// A section is a part of a document.
type section struct {
	title  string
	lead   []string // paragraphs, before the tables
	tables []table
	tail   []string // paragraphs, after them
	chart  chart    // in Markdown only
	made   *doc.Section
}

func (s section) empty() bool {
	return len(s.lead) == 0 && len(s.tables) == 0 && len(s.tail) == 0 && s.chart.empty() && s.made == nil
}

// A View is a section by name: what a committed Markdown file can hold between
// markers, and what the documents are made of.
type View struct {
	Name string
	Help string
	make func(v *analysis.Result) section
}

// Views returns all views, in the order of a document.
func Views() []View {
	return []View{
		{"verdict", "which transport to use for each model, how sure that is, and what the wrong choice costs", verdicts},
		{"findings", "what a result says that cannot be, or that puts it in doubt", findingsSection},
		{"cells", "the times and costs of every cell", cellTables},
		{"floors", "the limits of the machine, measured between the cells", floorTable},
		{"phases", "down, train, uplink, and copying and decoding side by side, with the speed-up against " + analysis.Baseline, phaseTables},
		{"costs", "CPU time, page faults, switches, allocations and memory, and the cold first round", costTables},
		{"crossover", "from which model on one transport beats another", crossovers},
		{"workers", "clients a second over workers and clients, and where starting workers dominates", workerTable},
		{"calls", "which requests a round makes, and how long a client and its requests wait", callTable},
		{"profiles", "CPU time by phase, the heaviest functions and where memory is allocated, of a run with --profile", profileTables},
		{"copies", "how often a byte is copied, by our code, by the kernel and by libraries", copyTables},
		{"spans", "all phases that were recorded, a round", spanTables},
		{"change", "what changed from base to head, of a run with --against", changes},
		{"environment", "machine, build and settings", environment},
	}
}

func viewNamed(name string) (View, error) {
	all := Views()
	i := slices.IndexFunc(all, func(v View) bool { return v.Name == name })
	if i < 0 {
		names := make([]string, len(all))
		for i, v := range all {
			names[i] = v.Name
		}
		return View{}, fmt.Errorf("unknown view %q: want one of %s", name, list(names))
	}
	return all[i], nil
}

// sections returns views by name, in that order.
func sections(v *analysis.Result, names ...string) []section {
	all := make([]section, len(names))
	for i, name := range names {
		view, err := viewNamed(name)
		if err != nil {
			panic(err) // a name that is written in this package
		}
		all[i] = view.make(v)
	}
	return all
}

// groupTitle says what the cells of a group have in common.
func groupTitle(g analysis.Group) string {
	what := func(name string, tensors int, bytes int64) string {
		return fmt.Sprintf("%s (%s, %s), ", name, plural(tensors, "tensor"), size(bytes))
	}
	t := what(g.Model.Name, g.Model.Tensors, g.Model.Bytes)
	if g.Model.Up != "" {
		t += "up " + what(g.Model.Up, g.Model.UpTensors, g.Model.UpBytes)
	}
	t += plural(g.Workers, "worker") + ", " + plural(g.Clients, "client")
	if g.Build != "" {
		t += ", " + g.Build
	}
	return t
}

// groupLabel is the title without sizes.
func groupLabel(g analysis.Group) string {
	t := fmt.Sprintf("%s, %s, %s", g.Model.Label(), plural(g.Workers, "worker"), plural(g.Clients, "client"))
	if g.Build != "" {
		t += ", " + g.Build
	}
	return t
}

// effort says how much was measured in the cells.
func effort(cells []*analysis.Cell) string {
	blocks, rounds := make([]int, len(cells)), make([]int, len(cells))
	for i, c := range cells {
		blocks[i], rounds[i] = len(c.Timed()), c.Rounds()
	}
	return between(slices.Min(blocks), slices.Max(blocks), "block") + " and " +
		between(slices.Min(rounds), slices.Max(rounds), "round") + " a cell"
}

// environment says where and how the result was made.
func environment(v *analysis.Result) section {
	e, p := v.Environment, v.Plan
	s := section{title: "Environment"}
	t := table{header: []string{"what", "value"}, words: 2}
	add := func(what, value string) {
		if value != "" {
			t.add(what, value)
		}
	}
	cpu := fmt.Sprintf("%s, %s online, %s may be used", e.CPU, plural(e.CPUs, "processor"), e.Affinity)
	if e.Hypervisor != "" {
		cpu += ", under " + e.Hypervisor
	}
	if e.Governor != "" {
		cpu += ", governor " + e.Governor
	}
	add("CPU", cpu)
	memory := fmt.Sprintf("%s, %s of it available", size(e.MemTotal), size(e.MemAvailable))
	if e.Shm != nil {
		memory += fmt.Sprintf("; /dev/shm %s (%s)", size(e.Shm.Size), e.Shm.FileSystem)
	}
	add("memory", memory)
	add("huge pages", fmt.Sprintf("transparent %s, of shared memory %s, %d reserved", orNone(e.THP), orNone(e.ShmemTHP), e.HugePages))
	if e.SocketBuffer > 0 {
		add("sockets", fmt.Sprintf("at most %s on their way (net.core.wmem_max)", size(e.SocketBuffer)))
	}
	if e.Cgroup != nil {
		limits := "cgroup " + e.Cgroup.Version + ": "
		if e.Cgroup.CPUs != nil {
			limits += plain.number(*e.Cgroup.CPUs) + " processors, "
		}
		if e.Cgroup.Memory != nil {
			limits += size(*e.Cgroup.Memory)
		} else {
			limits += "no memory limit"
		}
		add("limits", limits)
	}
	add("kernel", e.Kernel+" "+e.Arch)
	build := e.Commit
	if e.Dirty {
		build += ", changed since"
	}
	add("build", build+", "+e.Go)
	add("run", fmt.Sprintf("%s, %s, %s, seed %d", v.Started.UTC().Format("2006-01-02 15:04 UTC"), elapsed(v.Elapsed), p.Mode, p.Seed))
	settings := fmt.Sprintf("%s a cell at least, %s each, precision %s, verify %s", plural(p.Blocks, "block"), warmup(p), share(p.Precision), p.Verify)
	if p.TrainMS > 0 {
		settings += fmt.Sprintf(", %d ms of training", p.TrainMS)
	}
	if p.Respawn {
		settings += ", a fresh session for every round"
	}
	if p.Pin {
		settings += ", pinned"
	}
	add("settings", settings)
	add("command", commandLine(v.Command))
	s.tables = []table{t}
	return s
}

// warmup says which rounds of each block do not count, besides the first two.
func warmup(p bench.Plan) string {
	text := plural(p.Warmup, "warm-up round")
	if p.Warmup > 0 && p.Rounds == 0 && p.WarmTime > 0 {
		text = fmt.Sprintf("at least %s and %v", text, p.WarmTime)
	}
	return text
}

// commandLine writes a command with the directory of the program left out.
func commandLine(command []string) string {
	line := ""
	for i, word := range command {
		if i == 0 {
			line = lastOf(word)
			continue
		}
		line += " " + quoted(word)
	}
	return line
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
