package rig_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/rig"
	"ipcbench/internal/test/waiting"
)

// roleEnv says what the test's program is on a host: "serve", which listens, takes one
// connection and reads it to its end, "dial ADDR SECONDS", which writes to one for so long
// and says how many bits a second came through, "clock", which says what its clock shows,
// or "hosts", which makes hosts and waits.
const roleEnv = "IPCBENCH_TEST_RIG"

const port = "7000"

func TestMain(m *testing.M) {
	var err error
	switch role := strings.Fields(os.Getenv(roleEnv) + " test"); role[0] {
	case "serve":
		err = serve()
	case "dial":
		err = dial(role[1], role[2])
	case "clock":
		var now unix.Timespec
		err = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now)
		fmt.Println(now.Sec)
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve() error {
	l, err := net.Listen("tcp", ":"+port)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	conn, err := l.Accept()
	if err != nil {
		return err
	}
	n, err := io.Copy(io.Discard, conn)
	if err == nil {
		_, err = fmt.Fprintln(conn, n)
	}
	return err
}

func dial(addr, forSeconds string) error {
	seconds, err := strconv.ParseFloat(forSeconds, 64)
	if err != nil {
		return err
	}
	conn, err := net.Dial("tcp", addr+":"+port)
	if err != nil {
		return err
	}
	began, block := time.Now(), make([]byte, 1<<16)
	for time.Since(began).Seconds() < seconds {
		if _, err := conn.Write(block); err != nil {
			return err
		}
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		return err
	}
	var n int64
	if _, err := fmt.Fscan(conn, &n); err != nil {
		return err
	}
	fmt.Println(float64(n) * 8 / time.Since(began).Seconds())
	return nil
}

// self is the test's program in a role on a host.
func self(r *rig.Rig, host, role string) *exec.Cmd {
	c := r.Command(host, os.Args[0])
	c.Env = append(c.Env, roleEnv+"="+role)
	return c
}

// transfer sends from one host to another, and returns bits a second.
func transfer(t *testing.T, r *rig.Rig, from, to string, seconds float64) (float64, error) {
	t.Helper()
	server := self(r, to, "serve")
	stdout, err := server.StdoutPipe()
	check.Must(t, err)
	check.Must(t, server.Start())
	defer func() {
		_ = server.Process.Kill() // one that nobody came to
		_ = server.Wait()
	}()
	var ready string
	if _, err := fmt.Fscan(stdout, &ready); err != nil {
		t.Fatal(err)
	}
	out, err := self(r, from, fmt.Sprintf("dial %s %g", r.Addr(to), seconds)).CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("%w: %s", err, out)
	}
	return strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
}

func output(t *testing.T, r *rig.Rig, host, name string, args ...string) string {
	t.Helper()
	out, err := r.Command(host, name, args...).CombinedOutput()
	check.Need(t, err == nil, "%s: %s %q: %v: %s", host, name, args, err, out)
	return strings.TrimSpace(string(out))
}

// TestHosts: each host has its name, its /dev/shm and its temporary folder, reaches each
// other one, and can be taken from the network.
func TestHosts(t *testing.T) {
	names := []string{"h0", "h1", "h2"}
	r := rig.New(t, names...)
	for _, from := range names {
		check.Equal(t, output(t, r, from, "hostname"), from, "the host name of", from, "is")
		for _, to := range names {
			_, err := transfer(t, r, from, to, 0.01)
			check.That(t, err == nil, "from %s to %s: %v", from, to, err)
		}
		output(t, r, from, "sh", "-c", "echo "+from+" > /dev/shm/mine; cp /dev/shm/mine $TMPDIR")
	}
	for _, name := range names {
		for _, dir := range []string{r.Shm(name), r.Tmp(name)} {
			entries, err := os.ReadDir(dir)
			check.That(t, err == nil && len(entries) == 1, "%s: %s has %v, %v, want one file", name, dir, entries, err)
			if got, err := os.ReadFile(filepath.Join(dir, "mine")); err != nil || string(got) != name+"\n" {
				t.Errorf("%s: got %q, %v", name, got, err)
			}
		}
		there := output(t, r, name, "ls", "/sys/fs/cgroup")
		check.That(t, there != "", "%s hides the groups of processes", name)
	}

	r.Down("h1")
	_, err := transfer(t, r, "h1", "h2", 0.01)
	check.That(t, err != nil, "h1 reaches h2 while its interface is down")
	r.Up("h1")
	if _, err := transfer(t, r, "h1", "h2", 0.01); err != nil {
		t.Errorf("up again: %v", err)
	}
}

// TestAhead: the monotonic clock of one host is ahead, and that of another is not.
func TestAhead(t *testing.T) {
	r := rig.New(t, "h0", "h1")
	r.Ahead("h1", 100_000*time.Second)
	clock := func(host string) int64 {
		out, err := self(r, host, "clock").Output()
		check.Must(t, err)
		seconds, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
		check.Must(t, err)
		return seconds
	}
	pids := r.Processes("h1")
	check.That(t, len(pids) <= 0, "on h1 are %v, want nothing besides what holds it", pids)
	before, there, after := clock("h0"), clock("h1"), clock("h0")
	check.That(t, there-after <= 100_000 && there-before+1 >= 100_000,
		"h1's clock says %d between %d and %d of h0, want it 100,000 s ahead", there, before, after)
}

// TestShape: no more comes through than a rate says, either way, and other hosts are
// free. A busy machine may let less through.
func TestShape(t *testing.T) {
	r := rig.New(t, "h0", "h1", "h2")
	r.Shape("h1", "1Mbit")
	r.Shape("h1", "50Mbit") // instead
	for _, way := range [][2]string{{"h0", "h1"}, {"h1", "h0"}, {"h2", "h1"}} {
		got, err := transfer(t, r, way[0], way[1], 0.2)
		check.That(t, err == nil && got <= 53e6, "%v: %.1f Mbit/s, %v, want at most 50", way, got/1e6, err)
	}
	waiting.Until(t, "a faster way beside it", func() bool {
		got, err := transfer(t, r, "h2", "h0", 0.1)
		check.Must(t, err)
		return got > 60e6
	})
}

// TestKilled: a test that is killed leaves no process on a host, not even one that went
// its own way, and no folder.
func TestKilled(t *testing.T) {
	if os.Getenv(roleEnv) == "hosts" {
		r := rig.New(t, "h0", "h1")
		fmt.Println("\nhosts", output(t, r, "h1", "sh", "-c", "readlink /proc/self/ns/net; echo $TMPDIR; setsid sleep 1000 > /dev/null 2>&1 &"))
		select {}
	}
	c := exec.Command(os.Args[0], "-test.run=^TestKilled$")
	c.Env = append(os.Environ(), roleEnv+"=hosts")
	stdout, err := c.StdoutPipe()
	check.Must(t, err)
	check.Must(t, c.Start())
	var name, tmp string
	if _, err := fmt.Fscanf(stdout, "\nhosts %s\n%s\n", &name, &tmp); err != nil {
		_ = c.Process.Kill()
		_ = c.Wait()
		rig.New(t, "h0") // says why there are none
		t.Fatal(err)
	}
	n := on(t, name)
	check.That(t, n == 2, "%d processes on the host, want one that holds it and one that sleeps", n)
	_ = c.Process.Signal(syscall.SIGKILL)
	_ = c.Wait()
	waiting.Until(t, "the end of a host", func() bool {
		_, err := os.Stat(tmp)
		return on(t, name) == 0 && os.IsNotExist(err)
	})
}

// on counts the processes of a network.
func on(t *testing.T, network string) (n int) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/ns/net")
	check.Must(t, err)
	for _, path := range all {
		if is, err := os.Readlink(path); err == nil && is == network {
			n++
		}
	}
	return n
}
