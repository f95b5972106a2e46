package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ipcbench/bench/result"
	"ipcbench/internal/doctor"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/child"
	"ipcbench/internal/test/skip"
	"ipcbench/phase/usage"
)

// modest asks the doctor about a run that most machines can do, but not one with 1 MiB of
// shared memory.
var modest = []string{"doctor", "--format", "json", "--model", "uniform:1MiB/4", "--workers", "1", "--clients", "2"}

// doctorHere runs the program in a shell, after the shell commands in before.
func doctorHere(t *testing.T, before string, attr *syscall.SysProcAttr, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := command(t, args...)
	shell := exec.CommandContext(t.Context(), "sh", append([]string{"-e", "-c", before + "\nexec \"$0\" \"$@\""}, cmd.Args...)...)
	shell.SysProcAttr, shell.Dir = attr, cmd.Dir
	return outcome(t, shell)
}

// outcome runs a command and returns its output and exit code.
func outcome(t *testing.T, cmd *exec.Cmd) (stdout, stderr string, code int) {
	t.Helper()
	c := child.Run(t, cmd)
	return c.Stdout.String(), c.Stderr.String(), c.ProcessState.ExitCode()
}

// statuses returns the status of each check. It omits checks that change from second to
// second and with other tests that run.
func statuses(t *testing.T, text string) map[string]doctor.Status {
	t.Helper()
	var checks []doctor.Check
	err := json.Unmarshal([]byte(text), &checks)
	check.Need(t, err == nil, "%v in %q", err, text)
	all := map[string]doctor.Status{}
	for _, c := range checks {
		if !slices.Contains([]string{"stolen time", "other load", "leftovers"}, c.Name) {
			all[c.Name] = c.Status
		}
	}
	return all
}

// TestDoctorNames: on a machine with one problem, only the check for it changes, with the
// right status and exit code.
func TestDoctorNames(t *testing.T) {
	sound, _, before := doctorHere(t, "", nil, modest...)
	tests := []struct {
		name  string // of the check
		want  doctor.Status
		spoil func(t *testing.T) (before string, attr *syscall.SysProcAttr)
	}{
		{"descriptors", doctor.Fail, func(*testing.T) (string, *syscall.SysProcAttr) { return "ulimit -n 64", nil }},
		{"/dev/shm", doctor.Fail, smallShm},
		{"processor quota", doctor.Warn, func(t *testing.T) (string, *syscall.SysProcAttr) {
			return "echo $$ >" + controlGroup(t, "cpu", "cpu.cfs_quota_us", "cpu.max", "50000") + "/cgroup.procs", nil // half a processor
		}},
		{"processors", doctor.Warn, func(t *testing.T) (string, *syscall.SysProcAttr) {
			if _, err := exec.LookPath("taskset"); err != nil {
				skip.Missing(t, "taskset (Debian: util-linux)")
			}
			cpus := check.Value(usage.Affinity())(t)
			return fmt.Sprintf("taskset -cp %d $$ >&2", cpus[0]), nil // containers may not have processor 0
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			setup, attr := tt.spoil(t)
			spoilt, says, code := doctorHere(t, setup, attr, modest...)
			want := statuses(t, sound)
			_, ok := want[tt.name]
			check.Need(t, ok, "there is no such check")
			want[tt.name] = tt.want
			diff := cmp.Diff(want, statuses(t, spoilt))
			check.That(t, diff == "", "(-one thing spoilt +got):\n%s\n%s", diff, spoilt)
			wantCode := before
			if tt.want == doctor.Fail {
				wantCode = 1
			}
			failed := regexp.MustCompile(`ipcbench: doctor: \d+ checks? failed: .*`).MatchString(says)
			check.That(t, code == wantCode && (code == 1) == failed && (tt.want != doctor.Fail || strings.Contains(says, tt.name)),
				"exit code %d, want %d: %s", code, wantCode, says)
		})
	}
}

// smallShm returns a command and attributes that give a process a /dev/shm of 1 MiB in its
// own mount namespace.
func smallShm(t *testing.T) (string, *syscall.SysProcAttr) {
	const mount = "mount -t tmpfs -o size=1m tmpfs /dev/shm"
	attr := separate(syscall.CLONE_NEWNS)
	try := exec.CommandContext(t.Context(), "sh", "-c", mount)
	try.SysProcAttr = attr
	if out, err := try.CombinedOutput(); err != nil {
		skip.Refused(t, "a /dev/shm of its own: %v: %s", err, out)
	}
	return mount, attr
}

// separate returns the attributes of a process with namespaces of its own.
func separate(namespaces uintptr) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Cloneflags: namespaces}
	if os.Geteuid() != 0 { // root needs no user namespace
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
	}
	return attr
}

// TestDoctorMemory: a run that needs more memory than any machine has fails the memory
// check, which prints the amounts.
func TestDoctorMemory(t *testing.T) {
	out, says, code := doctorHere(t, "", nil, "doctor", "--format", "json", "--transport", "pickle,shm-slab", "--model", "uniform:8192GiB/4")
	if got := statuses(t, out); code != 1 || got["memory"] != doctor.Fail || got["/dev/shm"] != doctor.OK || !strings.Contains(says, "memory") {
		t.Errorf("exit code %d, %s: %v", code, says, got)
	}
}

// TestDoctorLeftovers: the doctor reports directories that a killed run left, until they
// are removed.
func TestDoctorLeftovers(t *testing.T) {
	tmp := shortDir(t)
	left := filepath.Join(tmp, "ipcbench-0123456789abcdef")
	check.Must(t, os.Mkdir(left, 0o700))
	boot := check.Value(os.ReadFile("/proc/sys/kernel/random/boot_id"))(t)
	owner := fmt.Sprintf("pid 1, parent 1, of ipcbench since 2026-01-01T00:00:00Z, boot %s", boot)
	check.Must(t, os.WriteFile(filepath.Join(left, "lock"), []byte(owner), 0o600))
	tell := func() string {
		out, _, _ := doctorHere(t, "export TMPDIR="+tmp, nil, "doctor", "--transport", "pickle", "--model", "cnn")
		return out
	}
	line := regexp.MustCompile(`(?m)^\w+ +leftovers .*$`)
	before := tell()
	check.That(t, strings.Contains(before, "warn: leftovers") && strings.Contains(before, "To fix it: ipcbench clean"),
		"it does not tell of %s:\n%s", left, before)
	out, says, code := doctorHere(t, "export TMPDIR="+tmp, nil, "clean", left)
	check.Need(t, code == 0, "%v %v", out, says)
	out = tell()
	check.That(t, line.FindString(out) != line.FindString(before), "it tells of what is gone:\n%s", out)
}

// TestDoctorOfRun: a run prints failed checks before it begins, measures the cells that it
// can, and saves the checks in its result.
func TestDoctorOfRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "r.json")
	_, says, code := doctorHere(t, "ulimit -n 64", nil, "run", "-q", "--transport", "pickle,shm-tensor", "--model", "uniform:64KiB/3", "--rounds", "3", "--blocks", "1", "--out", file)
	const line = "warning: descriptors: 64 (ulimit -n), and shm-tensor uniform:64KiB/3 workers=2 clients=4 needs 116; see ipcbench doctor\n"
	check.Need(t, code == 0 && strings.Contains(says, "ipcbench: "+line), "exit code %d: %s", code, says)
	r := check.Value(result.ReadFile(file))(t)
	i := slices.IndexFunc(r.Doctor, func(c doctor.Check) bool { return c.Name == "descriptors" })
	check.That(t, i >= 0 && r.Doctor[i].Status == doctor.Fail, "the result keeps %+v", r.Doctor)
	out, _, _ := doctorHere(t, "", nil, "report", "--view", "findings,environment", file)
	for _, want := range []string{"Warning: doctor: descriptors: 64 (ulimit -n)", "descriptors, fail: 64"} {
		check.That(t, strings.Contains(strings.Join(strings.Fields(out), " "), want), "the report lacks %q:\n%s", want, out)
	}
}

// TestFloorSkipped: a floor that does not fit into memory is skipped with the reason, and all
// else is measured.
func TestFloorSkipped(t *testing.T) {
	file := filepath.Join(t.TempDir(), "r.json")
	group := controlGroup(t, "memory", "memory.limit_in_bytes", "memory.max", strconv.Itoa(128<<20))
	_, says, code := doctorHere(t, "echo $$ >"+group+"/cgroup.procs", nil, "run", "-q", "--transport", "pickle", "--model", "cnn", "--workers", "1", "--clients", "1", "--rounds", "3", "--blocks", "1", "--out", file)
	check.Need(t, code == 0, "exit code %d: %s", code, says)
	r := check.Value(result.ReadFile(file))(t)
	check.That(t, len(r.Cells) == 2 && slices.ContainsFunc(r.Floors, func(f result.Floor) bool { return f.Name == "copy" }), "got %d cells and %v", len(r.Cells), r.Floors)
	var skipped []string
	for _, s := range r.Skipped {
		skipped = append(skipped, s.Floor)
		check.That(t, strings.Contains(s.Why, "needs 127 MiB of free memory, twice the 63.52 MiB that it writes or sends, but the memory cgroup's "), "%s", s.Why)
	}
	slices.Sort(skipped)
	check.Equal(t, skipped, []string{"first-touch", "unix-stream"})
}

// TestDoctorScreen: each check is one line of at most 80 columns, in ASCII if the locale
// asks for it.
func TestDoctorScreen(t *testing.T) {
	out, _, _ := doctorHere(t, "export LC_ALL=C NO_COLOR=1 TERM=dumb", nil, "doctor", "--transport", "pickle", "--model", "cnn", "--workers", "500")
	check.That(t, !strings.ContainsFunc(out, func(r rune) bool { return r > '~' || r < ' ' && r != '\n' }),
		"not plain ASCII: %q", out)
	for _, want := range []string{`(?m)^warn +processors +\d+ for 500 workers and the server$`, `(?m)^warn: processors$`, `(?m)^\d+ ok, \d+ warn, \d+ fail: `} {
		check.That(t, regexp.MustCompile(want).MatchString(out), "no %s in\n%s", want, out)
	}
}
