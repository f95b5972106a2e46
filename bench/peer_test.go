package bench_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"ipcbench/bench"
	"ipcbench/bench/benchtest"
	"ipcbench/bench/program"
	"ipcbench/bench/session"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
	"ipcbench/phase/usage"
	"ipcbench/python"
	"ipcbench/tensor"
	"ipcbench/tensor/models"
	"ipcbench/trainer"
	"ipcbench/transports/driver"
)

// peerArg makes this executable a peer; a fault follows, and a file for the id of a process that it leaves behind.
const peerArg = "peer"

const peerModel = "uniform:4KiB/4"

// peerMain is a peer that measures one of our transports and then falsifies the answer as fault says.
func peerMain(fault, file string) error {
	var order map[string]any
	if err := json.NewDecoder(os.Stdin).Decode(&order); err != nil {
		return err
	}
	for _, c := range order["cells"].([]any) {
		c.(map[string]any)["variant"] = "pickle" // a variant that ServeBlock knows
	}
	block, timed := order["block"].(map[string]any)
	if timed {
		switch fault {
		case "fails":
			return fmt.Errorf("Traceback\n\x1b[2JModuleNotFoundError: No module named 'torch'")
		case "waits":
			_, err := io.Copy(io.Discard, os.Stdin)
			return err // without an answer
		case "prints":
			for zeros := make([]byte, 1<<20); ; {
				if _, err := os.Stdout.Write(zeros); err != nil {
					return err
				}
			}
		case "leaves", "hangs": // a process in a session of its own, which keeps stdout open
			left := exec.Command("/bin/sh", "-c", `setsid sleep 1000 & echo $! > "$0"`, file)
			left.Stdout = os.Stdout
			if err := left.Run(); err != nil || fault == "leaves" {
				return err
			}
			waiting.Forever()
		}
	}
	text, err := json.Marshal(order)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	stdin := io.Reader(os.Stdin)
	if fault == "hurries" {
		stdin, _ = io.Pipe()
	}
	if err := program.Serve(context.Background(), io.MultiReader(bytes.NewReader(text), stdin), &out, host()); err != nil {
		return err
	}
	var a map[string]any
	if err := json.Unmarshal(out.Bytes(), &a); err != nil {
		return err
	}
	if timed {
		if err := spoil(a, fault, uint64(block["seed"].(float64))); err != nil {
			return err
		}
	} else {
		a["software"] = map[string]string{"python": "3.11.2", "kernel": "C"}
		switch fault {
		case "refuses":
			a["refused"] = []string{`it needs "luck"`}
		case "mute":
			a["refused"] = nil
		case "escapes":
			a["software"] = map[string]string{"\x1b[2J": "1"}
		}
	}
	return json.NewEncoder(os.Stdout).Encode(a)
}

// spoil falsifies the answer to the order of a block.
func spoil(a map[string]any, fault string, seed uint64) error {
	hashes, block := a["hashes"].([]any), a["block"].(map[string]any)
	switch fault {
	case "hurries": // the block ends before any round was timed
		for _, name := range []string{"round_ns", "train_ns", "rtt_ns", "down_ns", "up_ns"} {
			block[name] = []int{}
		}
		block["phases_ns"] = nil
	case "unproved":
		a["unproved"], a["hashes"], block["proof"] = "no hash of what is in GPU memory", nil, map[string]int{"rounds": 0, "updates": 0}
	case "running", "bit":
		m, err := models.Parse(peerModel)
		if err != nil {
			return err
		}
		r := trainer.NewReference(m.Layout, m.Layout, seed)
		tensor.Fill(r.Model, seed)
		var running [][]string
		for n := range hashes {
			if err := r.Round(context.Background(), trainer.Roster(2)); err != nil {
				return err
			}
			if fault == "bit" && n == 1 {
				r.Model.View(2)[100] ^= 4
			}
			var after []string
			for _, h := range r.Model.Hashes() {
				after = append(after, fmt.Sprintf("%016x", h))
			}
			hashes[n] = after[len(after)-1]
			running = append(running, after)
		}
		a["running"] = running
	}
	return nil
}

// peerOptions returns options for a run of a peer with a fault, and the peer's file for a process id.
func peerOptions(t *testing.T, fault string) (bench.Options, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "pid")
	p := check.Value(program.NewPeer("mine", fmt.Sprintf(`"%s" %s '%s' "%s"`, self(t), peerArg, fault, file)))(t)
	o := options(t, short(t, 3, 1))
	o.Cells = benchtest.Specs[session.Spec](t, []driver.Subject{p}, "mine "+peerModel+" clients=2")
	return o, file
}

// TestPeer: a peer's blocks are measured among ours and proved. Its software and its hashes after each tensor are
// accepted. A block without hashes is kept and marked as unproved, with the reason.
func TestPeer(t *testing.T) {
	t.Parallel()
	for fault, unproved := range map[string]string{"running": "", "unproved": "no hash of what is in GPU memory"} {
		o, _ := peerOptions(t, fault)
		r := run(t, o)
		c := cellOf(t, r, "mine")
		check.That(t, c.Proved() == (unproved == "") && c.IsPeer() && c.Unproved == unproved && c.Launcher == "peer" &&
			r.ProgramOf(&c).Software["python"] == "3.11.2" && r.ProgramOf(&c).Command != "" && len(c.Blocks) == 1 && len(r.Cells) == 2, "%d cells, %+v", len(r.Cells), c)
		if r.Cells[1].Program = ""; unproved != "" {
			check.Fails(t, r.Validate(), "unproved", "a transport of ours is unproved")
		}
	}
}

// TestPeerFaults: each fault of a peer ends the run with an error that describes it, and no process that the peer
// started survives.
func TestPeerFaults(t *testing.T) {
	t.Parallel()
	for fault, want := range map[string]string{
		"mute":    "refused: 0 entries: must be 1, one per cell",
		"escapes": `software: "\x1b[2J": contains unprintable characters`,
		"refuses": `mine uniform:4KiB/4 workers=1 clients=2: it needs "luck"`,
		"fails":   "exit status 1\nTraceback\n" + `\x1b[2JModuleNotFoundError: No module named 'torch'`,
		"bit":     "round 1, tensor 2 (tensor.2): the new model's hash is ",
		"prints":  "the answer has more than ",
		"leaves":  "its answer: empty",
		"hangs":   " has not ended after ",
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			o, file := peerOptions(t, fault)
			if fault == "hangs" {
				o.Plan.RoundLimit = trainer.LeastRoundLimit
			}
			fails(t, o, want)
			if fault != "leaves" && fault != "hangs" {
				return
			}
			text := check.Value(os.ReadFile(file))(t)
			pid := check.Value(strconv.Atoi(strings.TrimSpace(string(text))))(t)
			check.Equal(t, usage.State(pid), "gone", "it has left process", pid)
		})
	}
}

// TestPeerInterrupted: closing stdin asks a peer to end. An answer without timed rounds, or no answer, is then not an
// error.
func TestPeerInterrupted(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{"waits", "hurries"} {
		o, _ := peerOptions(t, fault)
		ctx, cancel := context.WithCancel(t.Context())
		o.Progress = func(p bench.Progress) {
			if strings.HasPrefix(p.What, "mine") {
				cancel()
			}
		}
		r := check.Value(bench.RunWithFloors(ctx, o))(t)
		check.That(t, r.Partial != "", "%s: it was not interrupted", fault)
	}
}

// TestPeerSkipped: a cell that a peer refuses is skipped, and the other cells are measured.
func TestPeerSkipped(t *testing.T) {
	t.Parallel()
	o, _ := peerOptions(t, "refuses")
	o.Cells = append(o.Cells, options(t, o.Plan, "pickle "+peerModel+" clients=2").Cells...)
	r := run(t, o)
	check.That(t, len(r.Cells) == 2 && len(r.Skipped) == 1 && r.Skipped[0].Why == `it needs "luck"` && r.Skipped[0].Transport == "mine",
		"%d cells, skipped %+v", len(r.Cells), r.Skipped)
}

// TestPeerAlone: settings that no peer supports are rejected.
func TestPeerAlone(t *testing.T) {
	o, _ := peerOptions(t, "")
	coded, packed := o.Cells[0], o.Cells[0]
	coded.Variant.Settings, packed.PerProcess = map[string]string{"codec": "zstd"}, 2
	check.Fails(t, coded.Check(), "codec zstd")
	check.Fails(t, packed.Check(), "--lanes-per-process")
}

// TestNewPeer: a command is split as a shell would split it, and its program looked up at once.
func TestNewPeer(t *testing.T) {
	for command, want := range map[string]string{
		`sh -c 'exit 1'`: "",
		``:               "no command",
		`  `:             "no command",
		`sh 'x`:          "an unclosed quote",
		`sh \`:           "a backslash at the end",
		`no-such-thing`:  "executable file not found",
		"sh \x1b[2J":     "contains unprintable characters",
		`./none`:         "no such file",
	} {
		check.Ends(t, check.Err(program.NewPeer("mine", command)), want, command)
	}
	for _, name := range []string{"", "-mine", "Mine", "mi:ne", "mi,ne", "base", "head"} {
		_, err := program.NewPeer(name, "sh")
		check.That(t, err != nil, "%q is a name", name)
	}
}

// TestRowMissing: a reference row that lacks its interpreter or modules does not fit, with the reason.
func TestRowMissing(t *testing.T) {
	dir := t.TempDir()
	check.Must(t, os.WriteFile(filepath.Join(dir, "python3"), []byte("#!/bin/sh\necho '{\"version\": [2, 7, 18], \"lacks\": []}'\n"), 0o700))
	t.Setenv("PATH", dir)
	row := program.NewRow(python.Row{Name: "py-mine", File: "py_mine.py", Modules: []python.Module{{Name: "nothing_has_this", Debian: "python3-nothing"}}})
	err := benchtest.Specs[session.Spec](t, []driver.Subject{row}, "py-mine "+peerModel)[0].Check()
	check.Fails(t, err, dir+"/python3 is Python 2.7.18, must be 3.9")
}
