package cli

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"

	"ipcbench/bench/result"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/internal/test/waiting"
)

// offLoopback is an address that the loopback interface has in a network of a test's
// own, in which nobody else is: for all that looks at it, it is off loopback.
const offLoopback = "192.0.2.1"

// networkEnv has a program of this package give itself that address before it begins.
const networkEnv = testPrefix + "NETWORK"

// maybeNetwork does that. It is called in a network that the process may change.
func maybeNetwork() {
	if os.Getenv(networkEnv) == "" {
		return
	}
	_ = os.Unsetenv(networkEnv) // workers are in that network
	lo, err := netlink.LinkByName("lo")
	if err == nil {
		err = errors.Join(netlink.LinkSetUp(lo), netlink.AddrAdd(lo, &netlink.Addr{IPNet: &net.IPNet{IP: net.ParseIP(offLoopback), Mask: net.CIDRMask(32, 32)}}))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "a network for a test:", err)
		os.Exit(1)
	}
}

// networked returns a run of the program in a network of its own. It is in a process
// group of its own, too.
func networked(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	exe := onLink(t) // as there are namespaces for that
	cmd := exec.CommandContext(waiting.Context(t), exe, append([]string{"run"}, args...)...)
	cmd.Env = append(os.Environ(), networkEnv+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setpgid: true, Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}},
	}
	if os.Geteuid() == 0 { // needs no users of its own
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Cloneflags: syscall.CLONE_NEWNET}
	}
	return cmd
}

// TestListenOffLoopback: a server whose address others can reach has certificates at
// both ends. Without them it listens only if the user says so, and the result says it.
// It does not say where that was.
func TestListenOffLoopback(t *testing.T) {
	skip.Long(t)
	t.Parallel() // much of it is waiting
	short := []string{"--model", "uniform:64KiB/4", "--clients", "3", "--workers", "3", "--lanes-per-process", "2", "--rounds", "2", "--blocks", "1", "--listen", offLoopback}
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"tls=off", []string{"--transport", "http,grpc-stream:tls=off"}, "--listen 192.0.2.1: with grpc-stream:network=tcp, strangers could read what goes over the network\nhint: leave tls=off out: with --listen it is mutual; or allow it with --insecure-network"},
		{"tls=on", []string{"--transport", "http:tls=on"}, "--listen 192.0.2.1: with http:network=tcp:tls=on, workers could not prove who they are\nhint: leave tls=on out"},
		{"mutual", []string{"--transport", "pickle,storage,grpc-tensor,grpc-batch,grpc-stream,http,http-shm,shm-slab"}, ""},
		{"insecure", []string{"--transport", "pickle:tls=off,grpc-stream:tls=on,http", "--insecure-network"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "out.json")
			cmd := networked(t, slices.Concat(short, tt.args, []string{"--out", out})...)
			text, err := cmd.CombinedOutput()
			if tt.want != "" {
				if cmd.ProcessState.ExitCode() != exitUsage || !strings.Contains(string(text), tt.want) {
					t.Errorf("exit code %d: %s\nwant %s", cmd.ProcessState.ExitCode(), text, tt.want)
				}
				return
			}
			check.Need(t, err == nil, "%v: %s", err, text)
			r, err := result.ReadFile(out)
			check.Must(t, err)
			for _, c := range r.Cells {
				over := c.Settings["network"] == "tcp"
				if has := c.Settings["network"] != ""; has != over || tt.name == "mutual" && has != (c.Settings["tls"] == "mutual") {
					t.Errorf("%s has settings %v", c.Variant, c.Settings)
				}
				if b := c.Blocks[0]; (b.TLS != nil) != (over && c.Settings["tls"] != "off") || b.TLS != nil && b.TLS.Handshakes < 3 {
					t.Errorf("%s: handshakes %+v", c.Variant, b.TLS)
				}
			}
			words := strings.Join(strings.Fields(string(text)), " ")
			read, unproven := strings.Contains(words, "could be read and changed on the way"), strings.Contains(words, "asked workers for no certificate")
			if insecure := tt.name == "insecure"; read != insecure || unproven != insecure || r.Environment.Listen != map[bool]string{false: "off loopback", true: "off loopback, insecure"}[insecure] {
				t.Errorf("it has listened %s, and said %s", r.Environment.Listen, text)
			}
			r.Command = nil // as it was typed
			var rest strings.Builder
			if err := r.Write(&rest); err != nil || strings.Contains(rest.String(), offLoopback) {
				t.Errorf("the result holds the address: %v", err)
			}
		})
	}
}

// TestListenInterrupted: a run that listens ends in order when it is interrupted, keeps
// what it has, and leaves nothing.
func TestListenInterrupted(t *testing.T) {
	skip.Long(t)
	t.Parallel() // much of it is waiting
	dir := shortDir(t)
	out := filepath.Join(dir, "out.json")
	cmd := networked(t, "--transport", "http,grpc-stream", "--model", "uniform:64KiB/4", "--clients", "2", "--workers", "2",
		"--time", "600s", "--precision", "0.000001", "--listen", offLoopback, "--out", out)
	cmd.Env = append(cmd.Env, "TMPDIR="+dir)
	interruptRun(t, cmd, "block ([3-9]|[1-9][0-9]) of", true, dir, out)
}
