package world

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ipcbench/internal/test/check"
)

// variables returns a getenv function for text such as "A=1 B=2".
func variables(text string) func(string) string {
	all := map[string]string{}
	for v := range strings.FieldsSeq(text) {
		name, value, _ := strings.Cut(v, "=")
		all[name] = value
	}
	return func(name string) string { return all[name] }
}

// Variables that the engines set, read on Open MPI 4.1 and Slurm 22.05. PMI, Indexed Jobs
// and torchrun are from their documentation.
const (
	openMPI = " OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=3 OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=3 PMIX_NAMESPACE=1216348161 PMIX_RANK=1 "
	step    = " SLURM_PROCID=1 SLURM_LOCALID=0 SLURM_NTASKS=3 SLURM_STEP_NUM_TASKS=3 SLURM_STEP_NUM_NODES=3 SLURM_STEP_NODELIST=n[1-3] SLURM_JOB_ID=12 SLURM_STEP_ID=0 SLURMD_NODENAME=n2 "
	batch   = " SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NTASKS=3 SLURM_JOB_ID=12 SLURM_JOB_NODELIST=n[1-3] "
)

// TestFind: each engine's variables give its world, in the right order.
func TestFind(t *testing.T) {
	for _, c := range []struct {
		name, env string
		want      *World
	}{
		{"none", "", nil},
		{"a job of Slurm, and no step", batch, nil},
		{"Open MPI", openMPI, &World{Rank: 1, Size: 3, LocalRank: 1, LocalSize: 3, Job: "1216348161", By: "Open MPI"}},
		{"Open MPI in a job of Slurm", batch + openMPI, &World{Rank: 1, Size: 3, LocalRank: 1, LocalSize: 3, Job: "1216348161", By: "Open MPI"}},
		{"Open MPI in a step of its own daemons", step + openMPI, &World{Rank: 1, Size: 3, LocalRank: 1, LocalSize: 3, Job: "1216348161", By: "Open MPI"}},
		{"Slurm", step, &World{Rank: 1, Size: 3, Nodes: 3, Job: "12.0", By: "Slurm step 12.0", Host: "n2", First: "n1"}},
		{"Slurm, once more", step + "SLURM_RESTART_COUNT=2", &World{Rank: 1, Size: 3, Nodes: 3, Job: "12.0.2", By: "Slurm step 12.0", Host: "n2", First: "n1"}},
		{"Slurm, a second part", step + "SLURM_JOB_ID=13 SLURM_HET_JOB_ID=12", &World{Rank: 1, Size: 3, Nodes: 3, Job: "12.0", By: "Slurm step 12.0", Host: "n2", First: "n1"}},
		{"Slurm with PMI", step + "PMI_RANK=1 PMI_SIZE=3", &World{Rank: 1, Size: 3, Nodes: 3, Job: "12.0", By: "Slurm step 12.0", Host: "n2", First: "n1"}},
		{"PMI", "PMI_RANK=2 PMI_SIZE=3 MPI_LOCALRANKID=0 MPI_LOCALNRANKS=1", &World{Rank: 2, Size: 3, LocalSize: 1, By: "PMI"}},
		{"PMIx", "PMIX_RANK=2 PMIX_NAMESPACE=a@1 IPCBENCH_WORLD=3", &World{Rank: 2, Size: 3, Job: "a@1", By: "PMIx"}},
		{"Job", "JOB_COMPLETION_INDEX=0 IPCBENCH_WORLD=3", &World{Size: 3, By: "Indexed Job"}},
		{"torchrun", "RANK=1 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1", &World{Rank: 1, Size: 2, LocalSize: 1, By: "RANK"}},
		{"by hand", openMPI + "IPCBENCH_RANK=0 IPCBENCH_WORLD=2", &World{Size: 2, By: "IPCBENCH_RANK"}},
	} {
		check.Same(t, cmp.Diff(c.want, check.Value(Find(variables(c.env)))(t)), c.name)
	}
	for env, want := range map[string][2]bool{
		openMPI: {true, false},
		openMPI + "OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=1": {false, true},
		step: {false, true},
		step + "SLURM_STEP_NODELIST=n1 SLURM_STEP_NUM_NODES=1":     {true, false},
		step + "SLURM_STEP_NODELIST=n[1-2] SLURM_STEP_NUM_NODES=2": {false, false},
		"RANK=1 WORLD_SIZE=2": {false, false},
	} {
		w := check.Value(Find(variables(env)))(t)
		check.Equal(t, [2]bool{w.OneHost(), w.Alone()}, want, env, "on one host, alone there")
	}
}

// TestFindErrors: errors name variables that are missing or contradict each other. A world
// cannot have a single rank.
func TestFindErrors(t *testing.T) {
	for env, want := range map[string]string{
		"OMPI_COMM_WORLD_SIZE=3":                                "Open MPI: OMPI_COMM_WORLD_RANK is not set",
		"OMPI_COMM_WORLD_RANK=0":                                "OMPI_COMM_WORLD_SIZE is not set",
		openMPI + "OMPI_COMM_WORLD_RANK=x":                      `OMPI_COMM_WORLD_RANK="x": must be a number from 0 to 65536`,
		openMPI + "OMPI_COMM_WORLD_RANK=-1":                     "OMPI_COMM_WORLD_RANK",
		openMPI + "OMPI_COMM_WORLD_RANK=3":                      "OMPI_COMM_WORLD_RANK=3, but OMPI_COMM_WORLD_SIZE=3",
		openMPI + "OMPI_COMM_WORLD_SIZE=99999999999999999999":   "OMPI_COMM_WORLD_SIZE",
		openMPI + "OMPI_COMM_WORLD_SIZE=0":                      "OMPI_COMM_WORLD_SIZE",
		openMPI + "OMPI_COMM_WORLD_LOCAL_SIZE=4":                "OMPI_COMM_WORLD_LOCAL_SIZE=4, but OMPI_COMM_WORLD_SIZE=3",
		openMPI + "OMPI_COMM_WORLD_LOCAL_SIZE=1":                "OMPI_COMM_WORLD_LOCAL_RANK=1, but OMPI_COMM_WORLD_LOCAL_SIZE=1",
		openMPI + "IPCBENCH_WORLD=4":                            `IPCBENCH_WORLD="4", but OMPI_COMM_WORLD_SIZE=3`,
		step + "SLURM_STEP_NUM_NODES=":                          "SLURM_STEP_NUM_NODES is not set",
		step + "SLURM_STEP_NUM_NODES=x":                         `SLURM_STEP_NUM_NODES="x"`,
		step + "SLURM_STEP_NODELIST=n[1-":                       "SLURM_STEP_NODELIST",
		step + "SLURM_PROCID=":                                  "SLURM_PROCID is not set",
		step + "SLURM_STEP_NUM_TASKS=":                          "SLURM_STEP_NUM_TASKS is not set",
		step + "SLURM_STEP_ID=":                                 "SLURM_STEP_ID is not set",
		"JOB_COMPLETION_INDEX=1":                                "Indexed Job: JOB_COMPLETION_INDEX is set, but not the number of ranks: set IPCBENCH_WORLD",
		"PMIX_RANK=1":                                           "set IPCBENCH_WORLD",
		"IPCBENCH_RANK=1":                                       "set IPCBENCH_WORLD",
		"IPCBENCH_WORLD=2":                                      "set IPCBENCH_RANK",
		"RANK=1":                                                "WORLD_SIZE is not set",
		"RANK=0 WORLD_SIZE=1":                                   "a world needs at least two ranks",
		"IPCBENCH_RANK=0 IPCBENCH_WORLD=1":                      "a world needs at least two ranks",
		"OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1" + step:  "OMPI_COMM_WORLD_SIZE=1, but SLURM_STEP_NUM_TASKS=3",
		"OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1" + batch: "OMPI_COMM_WORLD_SIZE=1, but SLURM_NTASKS=3",
		"PMI_RANK=0 PMI_SIZE=1 WORLD_SIZE=3":                    "PMI_SIZE=1, but WORLD_SIZE=3",
		"PMI_RANK=0 PMI_SIZE=1 SLURM_NTASKS=3":                  "PMI_SIZE=1, but SLURM_NTASKS=3",
		step + "SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 SLURM_STEP_NUM_NODES=1 SLURM_STEP_NODELIST=n1": "SLURM_STEP_NUM_TASKS=1, but SLURM_NTASKS=3",
	} {
		check.Fails(t, check.Err(Find(variables(env))), want, env)
	}
}

// TestFirstNode: the first node of lists that Slurm writes is found, and invalid lists are
// rejected.
func TestFirstNode(t *testing.T) {
	for list, want := range map[string]string{
		"vm":                          "vm",
		"a,b":                         "a",
		"gpu[08-10,12]":               "gpu08",
		"gpu[08-10,12],login,rack[1]": "gpu08",
		"login,gpu[08-10,12]":         "login",
		"r[1-2]n[09-10]x,y":           "r1n09x",
		"n[0-65535]":                  "n0",
		"":                            "",
		",":                           "",
		"n[1-3":                       "",
		"n1-3]":                       "",
		"n[[1]]":                      "",
		"n[]":                         "",
		"n[1-2-,3]":                   "",
		"n[1,]":                       "",
		"n[-1]":                       "",
		strings.Repeat("n", 256):      "",
	} {
		got, ok := firstNode(list)
		check.That(t, ok == (want != "") && (!ok || got == want), "%.40s: got %.80s, %v, want %s", list, got, ok, want)
	}
}

// FuzzFirstNode: the first host of any list has a name of limited length, which is itself a
// valid list.
func FuzzFirstNode(f *testing.F) {
	for _, list := range []string{"gpu[08-10,12],login", "r[1-2]n[09-10]", "n[0-99999999]", "a,,b", "[1-2]", "]["} {
		f.Add(list)
	}
	f.Fuzz(func(t *testing.T, list string) {
		name, ok := firstNode(list)
		if !ok {
			return
		}
		check.Need(t, name != "" && len(name) <= 255 && !strings.ContainsAny(name, "[],"), "%q: %q", list, name)
		again, ok := firstNode(name)
		check.Need(t, again == name && ok, "%q: %q, and again %q, %v", list, name, again, ok)
	})
}
