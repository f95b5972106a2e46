package cli

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"

	"ipcbench/bench/result"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/child"
	"ipcbench/internal/test/waiting"
)

// offLoopback is the address of a loopback interface in a network namespace of the test.
// ipcbench takes it for an address that other hosts can reach.
const offLoopback = "192.0.2.1"

// networkEnv makes a program of this package add that address before it begins.
const networkEnv = "IPCBENCH_TEST_" + "NETWORK"

// maybeNetwork adds offLoopback to the loopback interface if networkEnv is set. The process
// must be in its own network namespace.
func maybeNetwork() {
	if os.Getenv(networkEnv) == "" {
		return
	}
	_ = os.Unsetenv(networkEnv) // workers inherit the network
	lo, err := netlink.LinkByName("lo")
	if err == nil {
		err = errors.Join(netlink.LinkSetUp(lo), netlink.AddrAdd(lo, &netlink.Addr{IPNet: &net.IPNet{IP: net.ParseIP(offLoopback), Mask: net.CIDRMask(32, 32)}}))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "a network for a test:", err)
		os.Exit(1)
	}
}

// networked returns a run in its own network namespace and process group, and the path of
// its result.
func networked(t *testing.T, transports string, args ...string) (cmd *exec.Cmd, out string) {
	t.Helper()
	cmd, out = onLink(t, transports, append(args, "--model", "uniform:64KiB/4", "--listen", offLoopback)...) // skips the test if there are no namespaces
	cmd.Env = append(cmd.Env, networkEnv+"=1")
	cmd.SysProcAttr = separate(syscall.CLONE_NEWNET)
	cmd.SysProcAttr.Setpgid = true
	return cmd, out
}

// TestListenOffLoopback: a server that other hosts can reach uses certificates at both
// ends. Without them it listens only with --insecure-network, and the result notes that.
// The result does not hold the address.
func TestListenOffLoopback(t *testing.T) {
	for _, tt := range []struct{ name, transports, refused string }{
		{"tls=off", "http,grpc-stream:tls=off", "--listen 192.0.2.1: with grpc-stream:network=tcp, others could read the data on the network\nhint: remove tls=off, because the default with --listen is mutual; or allow it with --insecure-network"},
		{"tls=on", "http:tls=on", "--listen 192.0.2.1: with http:network=tcp:tls=on, workers could not prove their identity\nhint: remove tls=on"},
		{"mutual", "pickle,storage,grpc-tensor,grpc-batch,grpc-stream,http,http-shm,shm-slab", ""},
		{"insecure", "pickle:tls=off,grpc-stream:tls=on,http", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cmd, out := networked(t, tt.transports, "--clients", "3", "--workers", "3", "--lanes-per-process", "2", "--rounds", "2")
			if tt.name == "insecure" {
				cmd.Args = append(cmd.Args, "--insecure-network")
			}
			if tt.refused != "" {
				child.Start(t, cmd).Ends(waiting.Limit, exitUsage, regexp.QuoteMeta(tt.refused))
				return
			}
			c := child.Start(t, cmd)
			c.Ends(waiting.Limit, 0, "")
			r := check.Value(result.ReadFile(out))(t)
			for _, c := range r.Cells {
				over := c.Settings["network"] == "tcp"
				if has := c.Settings["network"] != ""; has != over || tt.name == "mutual" && has != (c.Settings["tls"] == "mutual") {
					t.Errorf("%s has settings %v", c.Variant, c.Settings)
				}
				if b := c.Blocks[0]; (b.TLS != nil) != (over && c.Settings["tls"] != "off") || b.TLS != nil && b.TLS.Handshakes < 3 {
					t.Errorf("%s: handshakes %+v", c.Variant, b.TLS)
				}
			}
			words := strings.Join(strings.Fields(c.Stdout.String()+c.Stderr.String()), " ")
			read, unproven := strings.Contains(words, "data on the network could be read and changed"), strings.Contains(words, "without asking workers for certificates")
			if insecure := tt.name == "insecure"; read != insecure || unproven != insecure || r.Environment.Listen != map[bool]string{false: "off loopback", true: "off loopback, insecure"}[insecure] {
				t.Errorf("it has listened %s, and said %s", r.Environment.Listen, words)
			}
			r.Command = nil // the command line has the address
			var rest strings.Builder
			err := r.Write(&rest)
			check.That(t, err == nil && !strings.Contains(rest.String(), offLoopback), "the result holds the address: %v", err)
		})
	}
}

// TestListenInterrupted: a run with --listen ends in order when it is interrupted, keeps
// the measured blocks and leaves nothing.
func TestListenInterrupted(t *testing.T) {
	cmd, _ := networked(t, "http,grpc-stream", "--clients", "2", "--workers", "2", "--blocks", "100", "--time", "600s", "--precision", "0.000001")
	interruptRun(t, cmd, "block ([3-9]|[1-9][0-9]) of", true)
}
