// Package world finds this process's rank under mpirun, srun or Kubernetes, and lets ranks find rank 0.
//
// An engine (mpirun, srun, Kubernetes) starts processes on hosts. It passes ranks in
// environment variables, which child processes inherit. So contradictory variables are an
// error. A world of one rank is an error too, because two such worlds side by side look
// like one result.
//
// Package world imports no other package of ipcbench.
package world

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// A World describes the ranks that an engine has started, as seen by one of them.
type World struct {
	Rank, Size int
	LocalRank  int    // rank among the ranks on this host
	LocalSize  int    // number of ranks on this host; 0 if unknown
	Nodes      int    // number of hosts of all ranks; 0 if unknown
	Job        string // the engine's unique name of this world; empty if unknown
	By         string // name of the engine, for display
	Host       string // the engine's name of this host; empty if unknown
	First      string // the engine's name of the host of rank 0; empty if unknown
}

// OneHost reports whether the engine's numbers show that all ranks are on this host.
func (w *World) OneHost() bool { return w.Nodes == 1 || w.LocalSize == w.Size }

// Alone reports whether the engine's numbers show that this is the only rank on its host.
func (w *World) Alone() bool { return w.Nodes == w.Size || w.Nodes == 0 && w.LocalSize == 1 }

// An engine lists the environment variables of an engine. Empty names do not exist.
type engine struct {
	by                               string
	rank, size, localRank, localSize string
	nodes                            string
	step                             string   // ignore the engine unless this is set
	job                              []string // the first one that is set counts
}

// The variables for users whose engine sets none, or no size.
const (
	rankVariable = "IPCBENCH_RANK"
	sizeVariable = "IPCBENCH_WORLD"
)

// engines are tried in this order. Under mpirun in a Slurm job, every rank has
// SLURM_PROCID=0, so mpirun comes first, and Slurm counts only within a step.
var engines = []engine{
	{by: rankVariable, rank: rankVariable, size: sizeVariable},
	{by: "Open MPI", rank: "OMPI_COMM_WORLD_RANK", size: "OMPI_COMM_WORLD_SIZE", localRank: "OMPI_COMM_WORLD_LOCAL_RANK", localSize: "OMPI_COMM_WORLD_LOCAL_SIZE",
		job: []string{"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"}},
	{by: "Slurm", step: "SLURM_STEP_NODELIST", rank: "SLURM_PROCID", size: "SLURM_STEP_NUM_TASKS", localRank: "SLURM_LOCALID", nodes: "SLURM_STEP_NUM_NODES"},
	{by: "PMI", rank: "PMI_RANK", size: "PMI_SIZE", localRank: "MPI_LOCALRANKID", localSize: "MPI_LOCALNRANKS"},
	{by: "PMIx", rank: "PMIX_RANK", size: sizeVariable, job: []string{"PMIX_NAMESPACE"}},
	{by: "Indexed Job", rank: "JOB_COMPLETION_INDEX", size: sizeVariable},
	{by: "RANK", rank: "RANK", size: "WORLD_SIZE", localRank: "LOCAL_RANK", localSize: "LOCAL_WORLD_SIZE"},
}

// sizes are the variables with the number of ranks.
var sizes = []string{"OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "PMI_SIZE", "WORLD_SIZE", sizeVariable}

// most is the limit of a world's size, more than any run can use.
const most = 1 << 16

// Find returns the world of this process, or nil if no engine has started it. It fails if
// variables are missing, invalid or contradictory, or if the world has one rank.
func Find(getenv func(string) string) (*World, error) {
	for _, e := range engines {
		if e.step != "" && getenv(e.step) == "" || getenv(e.rank) == "" && (e.size == sizeVariable || getenv(e.size) == "") {
			continue
		}
		w, err := e.world(getenv)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.by, err)
		}
		return w, nil
	}
	if getenv(sizeVariable) != "" {
		return nil, fmt.Errorf("%s is set, but not the rank of this process: also set %s", sizeVariable, rankVariable)
	}
	return nil, nil
}

// world reads and checks the variables of an engine.
func (e engine) world(getenv func(string) string) (*World, error) {
	w := &World{By: e.by}
	for _, v := range []struct {
		name        string
		to          *int
		least, most int
		must        bool
	}{
		{e.size, &w.Size, 1, most, true},
		{e.rank, &w.Rank, 0, most, true},
		{e.localSize, &w.LocalSize, 1, most, false},
		{e.localRank, &w.LocalRank, 0, most, false},
		{e.nodes, &w.Nodes, 1, most, e.nodes != ""},
	} {
		text := getenv(v.name)
		if text == "" && !v.must {
			continue
		}
		if text == "" && v.name == sizeVariable {
			return nil, fmt.Errorf("%s is set, but not the number of ranks: set %s (in a Job, to its completions)", e.rank, sizeVariable)
		}
		if text == "" {
			return nil, fmt.Errorf("%s is not set, but other variables of this engine are", v.name)
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < v.least || n > v.most {
			return nil, fmt.Errorf("%s=%q: must be a number from %d to %d", v.name, text, v.least, v.most)
		}
		*v.to = n
	}
	for _, name := range e.job {
		w.Job = cmp.Or(w.Job, getenv(name))
	}
	if e.by == "Slurm" {
		if err := w.slurm(getenv); err != nil {
			return nil, err
		}
	}
	if text := getenv(sizeVariable); text != "" && text != strconv.Itoa(w.Size) {
		return nil, fmt.Errorf("%s=%q, but %s=%d", sizeVariable, text, e.size, w.Size)
	}
	switch {
	case w.Rank >= w.Size:
		return nil, fmt.Errorf("%s=%d, but %s=%d: ranks count from 0", e.rank, w.Rank, e.size, w.Size)
	case w.LocalSize > w.Size:
		return nil, fmt.Errorf("%s=%d, but %s=%d", e.localSize, w.LocalSize, e.size, w.Size)
	case w.LocalSize > 0 && w.LocalRank >= w.LocalSize:
		return nil, fmt.Errorf("%s=%d, but %s=%d: ranks count from 0", e.localRank, w.LocalRank, e.localSize, w.LocalSize)
	case w.Size == 1:
		return nil, alone(e.size, getenv)
	}
	return w, nil
}

// alone returns the error for a world of one rank, whose size is in the variable size.
func alone(size string, getenv func(string) string) error {
	for _, name := range sizes {
		if n, err := strconv.Atoi(getenv(name)); err == nil && n > 1 && name != size {
			return fmt.Errorf("%s=1, but %s=%d: %[3]d worlds of one rank are not a world of %[3]d ranks (start all ranks with a single engine that ipcbench supports)", size, name, n)
		}
	}
	return fmt.Errorf("%s=1: a world needs at least two ranks, a server and an agent", size)
}

// slurm reads the variables that only Slurm has.
func (w *World) slurm(getenv func(string) string) error {
	list := getenv("SLURM_STEP_NODELIST")
	first, ok := firstNode(list)
	if !ok {
		return fmt.Errorf("SLURM_STEP_NODELIST=%.80q: must be names with numbers in brackets, such as gpu[08-10,12],login", list)
	}
	w.First, w.Host = first, getenv("SLURMD_NODENAME")
	job, step := cmp.Or(getenv("SLURM_HET_JOB_ID"), getenv("SLURM_JOB_ID")), getenv("SLURM_STEP_ID")
	if job == "" || step == "" {
		return errors.New("SLURM_JOB_ID or SLURM_STEP_ID is not set, but other variables of this engine are")
	}
	w.Job = job + "." + step
	w.By = "Slurm step " + w.Job
	if again := getenv("SLURM_RESTART_COUNT"); again != "" { // a restarted job keeps its number
		w.Job += "." + again
	}
	return nil
}

var numbers = regexp.MustCompile(`\[([0-9]+)([-,][0-9]+)*\]`)

// firstNode returns the first host of a list in Slurm's format, such as gpu08 of
// gpu[08-10,12],login.
func firstNode(list string) (name string, ok bool) {
	name, _, _ = strings.Cut(numbers.ReplaceAllString(list, "$1"), ",")
	return name, name != "" && len(name) <= 255 && !strings.ContainsAny(name, "[]")
}
