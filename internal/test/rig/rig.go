// Package rig makes several hosts of one machine, for tests. A host is a network namespace
// on a common bridge, with its own host name, /dev/shm and temporary folder. A program on a
// host reaches the others over the network only. The hosts share processors, memory and
// kernel, so measurements on them are not results.
//
// Nothing has a name outside. Each host is a shell that waits for the end of its stdin,
// which comes when the test ends, in whatever way. Then it kills all processes on the host,
// and the kernel removes the namespaces with the last process.
package rig

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"ipcbench/internal/link"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/proc"
	"ipcbench/internal/test/skip"
)

// hold is the shell script of a host in its namespaces. Its arguments are the host's name,
// its temporary folder and the lines of /etc/hosts. It prints its process id when it is
// ready.
const hold = `
set -e
hostname "$1"
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs "$2"
echo "$3" > "$2"/hosts
mount --bind "$2"/hosts /etc/hosts
rm "$2"/hosts
ip link set lo up
echo $$
read end || : # of stdin
exec 2> /dev/null # who would read that may have gone, and a message would end the shell
while found=; do
	for p in /proc/[0-9]*; do
		if [ $p/ns/net -ef /proc/$$/ns/net ] && [ $p != /proc/$$ ]; then
			kill -KILL ${p#/proc/} && found=1
		fi
	done
	[ "$found" ] || break
done
umount -l "$2" && rmdir "$2" || : # unless another host was first
`

// later is the shell script of a host with a monotonic clock that is ahead. It runs on a
// host that hold has set up.
const later = `echo $$; read end || :`

// A Rig has hosts with their own network, 10.77.0.0/24. Each host has an interface eth0,
// whose other end is on the bridge, in the first host.
type Rig struct {
	t     testing.TB
	tmp   string
	names []string
	enter map[string][]string // command that starts another command on a host
	pids  map[string]int
	held  []int // ids of the rig's own processes
}

// New makes hosts with these names, until the test ends. If the kernel refuses, the test is
// skipped.
func New(t testing.TB, names ...string) *Rig {
	t.Helper()
	for tool, of := range map[string]string{"ip": "iproute2", "tc": "iproute2", "unshare": "util-linux", "nsenter": "util-linux", "hostname": "hostname"} {
		if _, err := exec.LookPath(tool); err != nil {
			skip.Missing(t, "%s (Debian: %s)", tool, of)
		}
	}
	tmp, err := os.MkdirTemp("", "rig") // a short name, because sockets are in it
	check.Must(t, err)
	t.Cleanup(func() { _ = os.Remove(tmp) }) // fails if a host's shell has removed it
	r := &Rig{t: t, tmp: tmp, names: names, enter: map[string][]string{}, pids: map[string]int{}}
	hosts := "127.0.0.1 localhost"
	for _, name := range names {
		hosts += "\n" + r.Addr(name) + " " + name
	}
	var user []string
	unshare := []string{"unshare"}
	if os.Geteuid() != 0 { // all hosts share one user namespace, in which the first host's user is root
		unshare, user = append(unshare, "--user", "--map-root-user"), []string{"--user", "--preserve-credentials"}
	}
	for _, name := range names {
		pid := r.hold(append(unshare, "--net", "--uts", "--mount", "sh", "-c", hold, "host", name, tmp, hosts))
		target := append([]string{"nsenter", "--target", strconv.Itoa(pid)}, user...)
		r.pids[name], r.enter[name] = pid, append(target, "--net", "--uts", "--mount")
		if name == names[0] {
			unshare = append(append(target[:len(target):len(target)], user...), "unshare")
			if user == nil {
				unshare = []string{"unshare"}
			}
			r.do(name, "ip link add bridge type bridge")
			r.do(name, "ip link set bridge up")
		}
		r.do(names[0], "ip link add %s type veth peer name eth0 netns %d", port(name), pid)
		r.do(names[0], "ip link set %s master bridge up", port(name))
		r.do(name, "ip address add %s/24 dev eth0", r.Addr(name))
		r.Up(name)
	}
	return r
}

// hold starts the shell of a host and returns its process id.
func (r *Rig) hold(args []string) int {
	r.t.Helper()
	c := exec.Command(args[0], args[1:]...)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	stdin := check.Value(c.StdinPipe())(r.t)
	stdout, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	check.Must(r.t, err)
	line, _ := bufio.NewReader(stdout).ReadString('\n') // on an error, the line is not a number
	end := func() error {
		stdin.Close()
		return c.Wait()
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		_ = end() // stderr has the reason
		r.fail(stderr.String())
	}
	r.held = append(r.held, pid, c.Process.Pid) // the same process, unless the shell is a child
	r.t.Cleanup(func() {
		if err := end(); err != nil {
			r.t.Errorf("rig: end a host: %v: %s", err, stderr.String())
		}
	})
	return pid
}

// fail ends the test, which is skipped if the kernel or missing rights are the reason. If /
// is not a mount point, as in a chroot, a process cannot have its own mounts.
func (r *Rig) fail(said string) {
	r.t.Helper()
	for _, why := range []string{"not permitted", "denied", "No space left", "not supported", "Unknown device type", "root filesystem propagation"} {
		if strings.Contains(said, why) {
			skip.Refused(r.t, "hosts of one machine: %s", strings.TrimSpace(said))
		}
	}
	r.t.Fatalf("rig: %s", said)
}

// do runs a command, whose arguments have no spaces, on a host.
func (r *Rig) do(host, format string, args ...any) {
	r.t.Helper()
	words := strings.Fields(fmt.Sprintf(format, args...))
	if out, err := r.Command(host, words[0], words[1:]...).CombinedOutput(); err != nil {
		r.fail(fmt.Sprintf("%s: %s: %v: %s", host, words, err, out))
	}
}

// Command returns a command that runs on a host, in the folder /. The started process
// becomes the program, so that signals reach it. When the test ends, running programs are
// killed.
func (r *Rig) Command(host, name string, args ...string) *exec.Cmd {
	r.t.Helper()
	enter := r.enter[host]
	check.Need(r.t, enter != nil, "rig: no host %q", host)
	c := exec.Command(enter[0], append(append(enter[1:len(enter):len(enter)], name), args...)...)
	c.Env = append(os.Environ(), "TMPDIR="+r.tmp)
	return c
}

// Addr returns the address of a host.
func (r *Rig) Addr(host string) string {
	for i, name := range r.names {
		if name == host {
			return fmt.Sprintf("10.77.0.%d", i+1)
		}
	}
	r.t.Fatalf("rig: no host %q", host)
	return ""
}

// Shm returns a host's /dev/shm, and Tmp its temporary folder, as paths that the test can
// use. On the host, the temporary folder is TMPDIR.
func (r *Rig) Shm(host string) string { return r.root(host, "/dev/shm") }
func (r *Rig) Tmp(host string) string { return r.root(host, r.tmp) }

func (r *Rig) root(host, path string) string {
	return filepath.Join("/proc", strconv.Itoa(r.pids[host]), "root", path)
}

// Processes returns the ids of the processes on a host.
func (r *Rig) Processes(host string) (pids []int) {
	network := proc.Network(r.pids[host])
	check.Need(r.t, network != "", "rig: %s has ended", host)
	for _, pid := range proc.All() {
		if proc.Network(pid) == network && !slices.Contains(r.held, pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Ahead advances the monotonic clock of processes that are started on a host from now on.
func (r *Rig) Ahead(host string, by time.Duration) {
	r.t.Helper()
	enter := r.enter[host]
	seconds := fmt.Sprint(int64(by.Seconds()))
	pid := r.hold(append(enter[:len(enter):len(enter)], "unshare", "--fork", "--time", "--monotonic", seconds, "sh", "-c", later))
	r.enter[host] = append(enter[:len(enter):len(enter)], "--time=/proc/"+strconv.Itoa(pid)+"/ns/time")
}

// late is how late the kernel may serve a queue and still reach the rate: all hosts share
// the processors, also with other programs. After a pause, as many bytes may pass at once
// as the rate allows in that time.
const late = 4 * time.Millisecond

// Shape limits a host's connection to the bridge to a rate, each way: "1Gbit".
func (r *Rig) Shape(host, rate string) {
	r.t.Helper()
	as := check.Value(link.Parse(rate))(r.t)
	const some = 1e9 // bytes
	burst := max(as.Burst(), int64(some*late.Seconds()/as.Take(some).Seconds()))
	for _, end := range [][2]string{{host, "eth0"}, {r.names[0], port(host)}} {
		_ = r.Command(end[0], "tc", "qdisc", "delete", "dev", end[1], "root").Run() // fails if it had no rate
		r.do(end[0], "tc qdisc add dev %s root handle 1: htb default 1", end[1])
		r.do(end[0], "tc class add dev %s parent 1: classid 1:1 htb rate %s burst %d cburst %[3]d quantum 65536", end[1], rate, burst)
	}
}

// Down disables a host's interface, as if the machine had lost its network, and Up enables
// it again.
func (r *Rig) Down(host string) { r.t.Helper(); r.do(host, "ip link set eth0 down") }
func (r *Rig) Up(host string)   { r.t.Helper(); r.do(host, "ip link set eth0 up") }

// port returns the name of a host's end on the bridge.
func port(host string) string { return "to-" + host }
