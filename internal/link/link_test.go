package link_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"ipcbench/internal/link"
	"ipcbench/internal/machine"
	"ipcbench/internal/reexec"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/proc"
	"ipcbench/internal/test/skip"
	"ipcbench/internal/test/waiting"
	"ipcbench/phase/usage"
)

// kindEnv selects the code that a process of a test runs on the link.
const kindEnv = "IPCBENCH_TEST_LINK"

func TestMain(m *testing.M) {
	reexec.Main(reexec.Roles{reexec.Links: link.SetUp, reexec.Mirror: link.Hold})
	kind := os.Getenv(kindEnv)
	if kind == "" {
		os.Exit(m.Run())
	}
	if !link.Inside() {
		code, err := link.Enter()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 99
		}
		os.Exit(code)
	}
	what, with, _ := strings.Cut(kind, " ")
	with, bytes, _ := strings.Cut(with, " ")
	switch what {
	case "measure":
		measure(value(link.Parse(with)))
	case "broken":
		broken(value(strconv.Atoi(with)))
	case "impair":
		impair(value(link.Parse(with)), value(strconv.ParseInt(bytes, 10, 64)))
	case "busy":
		busy(value(link.Parse(with)), value(time.ParseDuration(bytes)))
	case "flood":
		flood(value(link.Parse(with)))
	case "copy":
		value(io.Copy(os.Stdout, os.Stdin))
	case "user":
		fmt.Println(os.Getuid(), os.Getgid())
	case "sleep":
		fmt.Println(os.Getpid())
		waiting.Forever()
	default:
		must(fmt.Errorf("%q: no such kind", kind))
	}
	os.Exit(7)
}

// must ends a process of a test if err is not nil.
func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(98)
	}
}

// value returns the value of a call, which must not fail.
func value[T any](v T, err error) T {
	must(err)
	return v
}

// prints prints v as JSON.
func prints(v any) { must(json.NewEncoder(os.Stdout).Encode(v)) }

// inside returns a command that starts this program again on a link, as the given kind.
func inside(t *testing.T, kind string) *exec.Cmd {
	t.Helper()
	possible(t)
	c := exec.CommandContext(waiting.Context(t), os.Args[0])
	c.Env = append(os.Environ(), kindEnv+"="+kind)
	return c
}

// possible skips the test if links cannot be emulated here, for a reason with a remedy.
func possible(t *testing.T) {
	t.Helper()
	if err := link.Try(); err != nil {
		check.Need(t, errors.As(err, new(*link.Error)), "a link: %v", err)
		skip.Refused(t, "a link: %v", err)
	}
}

// A measurement holds the rates and packet counts of a connection on a link.
type measurement struct {
	Congestion [2]string // algorithms of the ends of a connection
	Down, Up   float64   // bits per second
	Count      link.Count
	Else       int64 // packets counted on the link during traffic on another address
}

// measure sends one second's worth of bytes over one connection, both ways at once.
func measure(r link.Rate) {
	bytes := int64(float64(time.Second) / float64(r.Take(1e9)) * 1e9)
	must(link.Set(r))
	var m measurement
	m.Congestion = congestion(r)
	m.Down, m.Up = duplex(link.Address, bytes)
	m.Count = value(link.Counts())
	duplex("127.0.0.1", bytes)
	m.Else = value(link.Counts()).Packets - m.Count.Packets
	prints(m)
}

// broken sends a signal to the second mirror of a process, and prints why the links have ended.
func broken(signal int) {
	fmt.Println(link.Watch(context.Background(), func(ctx context.Context) error {
		for _, delay := range []string{"5ms", "25ms"} {
			must(link.Set(value(link.Parse("100Mbit/" + delay))))
		}
		must(syscall.Kill(mirror(), syscall.Signal(signal)))
		<-ctx.Done()
		return ctx.Err()
	}))
	must(link.Set(link.Unshaped))
}

// An impairment is what a link with a delay did.
type impairment struct {
	Delay      machine.Delay
	Late       string
	Flows      [3]float64 // seconds that each of three flows at once needed for its bytes
	Alone      float64    // seconds that one flow needed, from its connect
	Count      link.Count // of the flow alone
	Known      int        // peers of which the kernel then knows something for new connections
	Congestion [2]string  // algorithms of the ends of a connection
	Remaining  bool       // the mirror's device is left after the link has ended
}

// busy probes a link whose mirror is kept from working most of the time, for a while.
func busy(r link.Rate, while time.Duration) {
	must(link.Set(r))
	pid := mirror()
	go func() {
		for began := time.Now(); time.Since(began) < while; {
			must(syscall.Kill(pid, syscall.SIGSTOP))
			time.Sleep(4 * r.Delay())
			must(syscall.Kill(pid, syscall.SIGCONT))
			time.Sleep(time.Millisecond)
		}
	}()
	var x impairment
	var err error
	x.Delay, x.Late, err = link.Probe(r)
	must(err)
	prints(x)
}

// mirror returns the process of the link's mirror.
func mirror() int {
	pids := value(usage.ChildrenOf(os.Getpid()))
	if len(pids) != 1 {
		must(fmt.Errorf("processes %v", pids))
	}
	return pids[0]
}

// impair sends bytes over a link with a delay.
func impair(r link.Rate, bytes int64) {
	var x impairment
	var err error
	x.Delay, x.Late, err = link.Probe(r)
	must(errors.Join(err, link.Set(r)))
	x.Alone = flow(r, bytes)
	x.Count = value(link.Counts())
	var all sync.WaitGroup
	for i := range x.Flows {
		all.Go(func() { x.Flows[i] = flow(r, bytes) })
	}
	all.Wait()
	x.Known, x.Congestion = known(), congestion(r)
	must(link.Set(link.Unshaped))
	_, err = net.InterfaceByName("ipcbench0")
	x.Remaining = err == nil
	prints(x)
}

// congestion returns the algorithms of the ends of a new connection.
func congestion(r link.Rate) (ends [2]string) {
	listen, dial := r.Addresses()
	l := value(net.Listen("tcp", listen+":0"))
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	near := value(net.Dial("tcp", net.JoinHostPort(dial, port)))
	defer near.Close()
	far := value(l.Accept())
	defer far.Close()
	for i, end := range []net.Conn{near, far} {
		raw := value(end.(*net.TCPConn).SyscallConn())
		must(raw.Control(func(fd uintptr) {
			ends[i] = value(unix.GetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION))
		}))
	}
	return ends
}

// known returns the number of peers in the kernel's cache of what connections have learned.
func known() int {
	family := value(netlink.GenlFamilyGet("tcp_metrics"))
	dump := nl.NewNetlinkRequest(int(family.ID), unix.NLM_F_DUMP)
	const get = 1 // TCP_METRICS_CMD_GET
	dump.AddData(&nl.Genlmsg{Command: get, Version: 1})
	return len(value(dump.Execute(unix.NETLINK_GENERIC, 0)))
}

// flow returns the seconds that bytes need over a new connection.
func flow(r link.Rate, bytes int64) float64 {
	listen, dial := r.Addresses()
	l := value(net.Listen("tcp", listen+":0"))
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	began := time.Now()
	go func() {
		c := value(net.Dial("tcp", net.JoinHostPort(dial, port)))
		value(io.CopyN(c, zeros{}, bytes))
		must(c.Close())
	}()
	c := value(l.Accept())
	defer c.Close()
	if n := value(io.Copy(io.Discard, c)); n != bytes {
		must(fmt.Errorf("%d bytes arrived instead of %d", n, bytes))
	}
	return time.Since(began).Seconds()
}

func duplex(address string, bytes int64) (down, up float64) {
	l := value(net.Listen("tcp", address+":0"))
	defer l.Close()
	one := value(net.Dial("tcp", l.Addr().String()))
	defer one.Close()
	other := value(l.Accept())
	defer other.Close()
	var all sync.WaitGroup
	way := func(from, to net.Conn, rate *float64) {
		start := time.Now()
		all.Go(func() { value(io.CopyN(from, zeros{}, bytes)) })
		all.Go(func() {
			value(io.CopyN(io.Discard, to, bytes))
			*rate = float64(bytes) * 8 / time.Since(start).Seconds()
		})
	}
	way(other, one, &down)
	way(one, other, &up)
	all.Wait()
	return down, up
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }

// flood sends more packets than the link's queue holds. They are never read.
func flood(r link.Rate) {
	must(link.Set(r))
	l := value(net.ListenPacket("udp", link.Address+":0"))
	defer l.Close()
	for range 10 { // each socket may fill only a part of the queue
		c := value(net.Dial("udp", l.LocalAddr().String()))
		defer c.Close()
		must(c.SetWriteDeadline(time.Now().Add(50 * time.Millisecond)))
		for {
			_, err := c.Write(make([]byte, 100))
			if errors.Is(err, os.ErrDeadlineExceeded) {
				break
			}
			if !errors.Is(err, syscall.ENOBUFS) { // else dropped
				must(err)
			}
		}
	}
	prints(measurement{Count: value(link.Counts())})
}

// observed runs a process of the given kind and returns the measurement that it prints.
func observed(t *testing.T, kind string) (m measurement) {
	t.Helper()
	c := inside(t, kind)
	var stderr strings.Builder
	c.Stderr = &stderr
	out, err := c.Output()
	check.Need(t, c.ProcessState.ExitCode() == 7 && json.Unmarshal(out, &m) == nil, "%s: %v: %s%s", kind, err, out, stderr.String())
	return m
}

// TestRate: a connection moves no more bits per second each way than its link allows,
// headers excluded. Packets wait for the link, and traffic to other addresses does not use
// it. Only with IPCBENCH_TEST_SOAK, on an idle machine, must it also reach 95 % of the
// rate.
func TestRate(t *testing.T) {
	for _, text := range []string{"200Mbit", "1Gbit"} {
		r := check.Value(link.Parse(text))(t)
		m, want := observed(t, "measure "+text), 1e9*8/r.Take(1e9).Seconds()
		t.Logf("%s: %+v", text, m)
		least := 0.0
		if os.Getenv("IPCBENCH_TEST_SOAK") != "" {
			least = 0.95 * want
		}
		for _, got := range []float64{m.Down, m.Up} {
			check.That(t, got >= least && got <= 1.03*want, "%s: %.0f bits a second one way, want %.0f", text, got, want)
		}
		check.Equal(t, m.Congestion, cubic, text)
		check.That(t, m.Count.Packets != 0 && m.Count.Overlimits != 0, "%s: got %+v, want packets that had to wait", text, m.Count)
		if m.Else > m.Count.Packets/100 { // a few packets end the connection before
			t.Errorf("%s: %d packets that went elsewhere were on the link", text, m.Else)
		}
	}
}

// TestDrops: packets that do not fit into the link's queue are counted.
func TestDrops(t *testing.T) {
	m := observed(t, "flood 1Mbit")
	check.That(t, m.Count.Dropped != 0 && m.Count.Packets != 0, "got %+v, want packets that were dropped", m.Count)
}

// TestStreams: the program on a link keeps its streams, its user and its exit code.
func TestStreams(t *testing.T) {
	for kind, want := range map[string]string{
		"copy": "through and through", "user": fmt.Sprintln(os.Getuid(), os.Getgid()),
	} {
		c := inside(t, kind)
		c.Stdin = strings.NewReader("through and through")
		out, _ := c.Output() // its exit code is 7
		check.Equal(t, string(out), want)
		check.Equal(t, c.ProcessState.ExitCode(), 7, kind)
	}
	c := inside(t, "nonsense")
	check.That(t, c.Run() != nil && c.ProcessState.ExitCode() == 98, "got %v", c.ProcessState)
}

// TestSignals: a signal to the outer process reaches the inner one. A signal that cannot be
// forwarded ends both.
func TestSignals(t *testing.T) {
	for sig, want := range map[syscall.Signal]int{syscall.SIGINT: 128 + 2, syscall.SIGTERM: 128 + 15, syscall.SIGKILL: -1} {
		c := inside(t, "sleep")
		out := check.Value(c.StdoutPipe())(t)
		check.Must(t, c.Start())
		line, err := bufio.NewReader(out).ReadString('\n')
		pid, atoiErr := strconv.Atoi(strings.TrimSpace(line))
		check.Must(t, errors.Join(err, atoiErr, c.Process.Signal(sig)))
		_ = c.Wait() // its state is checked below
		check.Equal(t, c.ProcessState.ExitCode(), want, sig)
		waiting.Until(t, "the end of a process", func() bool { return !proc.Alive(pid) })
	}
}

// cubic is the algorithm of the ends of each connection on a link, whatever the host uses.
var cubic = [2]string{"cubic", "cubic"}

// TestDelay: a link holds all packets for its delay, at its rate, and drops those that its loss
// says, of at most 1,500 bytes each; or the error names what is missing. A new connection knows
// nothing of earlier ones and their losses. Afterwards nothing is left.
// Only with IPCBENCH_TEST_SOAK, on an idle machine, must the delay and the rate be exact, and three
// flows share it equally.
func TestDelay(t *testing.T) {
	delays(t)
	exact := os.Getenv("IPCBENCH_TEST_SOAK") != ""
	for _, test := range []struct {
		link  string
		bytes int64
		least float64 // seconds that the bytes need alone
	}{
		{"100Mbit/5ms", 2_500_000, 0.2}, {"100Mbit/25ms/1%", 1_000_000, 0.2}, {"100Mbit/100ms", 1_250_000, 0.3},
	} {
		var x impairment
		c := inside(t, fmt.Sprintf("impair %s %d", test.link, test.bytes))
		out, err := c.Output()
		check.Need(t, json.Unmarshal(out, &x) == nil, "%s: %v: %s", test.link, err, out)
		t.Logf("%s: %+v", test.link, x)
		check.That(t, x.Alone >= test.least && x.Delay.MTU == 1500 && !x.Remaining, "%s: %+v", test.link, x)
		check.That(t, x.Known == 0 && x.Congestion == cubic && x.Delay.Congestion == cubic[0],
			"%s: a new connection has learned from earlier ones, or uses another algorithm: %+v", test.link, x)
		check.That(t, x.Delay.Connect >= 0 && x.Delay.PingPong >= 0, "%s: faster than its delay: %+v", test.link, x)
		d := x.Delay
		check.That(t, d.Stream > 0 && d.Limit != "" && d.Stream <= 1.05*100e6/8, "%s: a stream: %+v", test.link, d)
		check.That(t, d.Limit == "rate" || !exact || test.link != "100Mbit/5ms", "%s: a stream: %+v", test.link, d)
		check.That(t, strings.HasSuffix(test.link, "%") == (x.Count.Lost > 0) && x.Count.CPU > 0 && x.Count.Packets > test.bytes/1500,
			"%s: %+v", test.link, x.Count)
		if exact && !strings.Contains(test.link, "%") {
			most := slices.Max(x.Flows[:])
			check.That(t, x.Late == "" && slices.Min(x.Flows[:]) >= 0.9*most, "%s: %+v", test.link, x)
		}
	}
}

// delays skips the test if links with a delay cannot be made here. The error names what is missing.
func delays(t *testing.T) {
	t.Helper()
	possible(t)
	if err := link.Try(check.Value(link.Parse("100Mbit/25ms"))(t)); err != nil {
		refused := (*link.Error)(nil)
		check.That(t, errors.As(err, &refused) && strings.Contains(refused.What, "a mirror") && refused.Fix != "", "got %v, want what is missing by its name", err)
		skip.Refused(t, "a link with a delay: %v", err)
	}
}

// TestByHand: an environment variable that asks for a role does not change the host's network. No
// variable can say that a network is our own: a new one has its loopback interface down, and its
// first process marks it.
func TestByHand(t *testing.T) {
	before := check.Value(net.InterfaceByName("lo"))(t)
	questions := map[string]any{
		reexec.Mirror: check.Value(link.Parse("100Mbit/25ms"))(t), reexec.Links: map[string]any{"Rates": []string{"100Mbit"}},
	}
	for role, question := range questions {
		c := check.Value(reexec.Call(waiting.Context(t), reexec.Command{Role: role, Question: question}))(t)
		check.Fails(t, c.Answer(nil), "not a network of ipcbench's own", role)
	}
	check.Equal(t, check.Value(net.InterfaceByName("lo"))(t).MTU, before.MTU)
}

// TestBusy: a link whose packets are late, because the machine is busy, can still be used, and the
// probe says how late they are.
func TestBusy(t *testing.T) {
	x := probed(t, "busy 100Mbit/2ms 1h")
	check.That(t, strings.Contains(x.Late, "100Mbit/2ms: a connect took") && x.Delay.Stream > 0, "got %+v", x)
	check.That(t, max(x.Delay.Connect, x.Delay.PingPong) > 1200*time.Microsecond, "got %+v", x)
}

// TestBusyOnce: if the machine is busy only for a while, the link is tried again.
func TestBusyOnce(t *testing.T) {
	skip.Soak(t)
	x := probed(t, "busy 100Mbit/25ms 1.5s")
	check.Equal(t, x.Late, "")
}

func probed(t *testing.T, kind string) (x impairment) {
	t.Helper()
	delays(t)
	out, err := inside(t, kind).Output()
	check.Need(t, json.Unmarshal(out, &x) == nil, "%s: %v: %s", kind, err, out)
	return x
}

// TestBrokenMirror: a mirror that is killed or stopped ends what is watched, whether it uses the link
// or not, and the error names it. Afterwards another link can be made.
func TestBrokenMirror(t *testing.T) {
	delays(t)
	for sig, want := range map[syscall.Signal]string{
		syscall.SIGKILL: "has ended: signal: killed", syscall.SIGSTOP: "has not answered for 5s: if it was stopped, continue it",
	} {
		c := inside(t, fmt.Sprintf("broken %d", sig))
		out, err := c.Output()
		check.Need(t, c.ProcessState.ExitCode() == 7, "%v: %v: %s", sig, err, out)
		check.That(t, strings.HasPrefix(string(out), "the link's mirror (pid ") && strings.Contains(string(out), want), "%v: %s", sig, out)
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"100Mbit": "100Mbit", "100mbit": "100Mbit", "1Gbit": "1Gbit", "1000Mbit": "1Gbit", "1.5Gbit": "1500Mbit", "1Gbit/s": "1Gbit",
		"125MB/s": "1Gbit", "1GB/s": "8Gbit", "1Gbit/10ms": "1Gbit/10ms", "1GB/s/2.5ms": "8Gbit/2.5ms", "100Mbit/25ms/0.1%": "100Mbit/25ms/0.1%",
		"1Gbit/2s/50%": "1Gbit/2s/50%", "unshaped": "unshaped", "none": "none",
		"1234567bit": "1234567bit", "32Gbit": "32Gbit",
	} {
		r := check.Value(link.Parse(text))(t)
		check.Equal(t, r.String(), want, text)
		check.Equal(t, check.Value(link.Parse(want))(t), r, text, "read again")
	}
	for text, want := range map[string]string{
		"1Gb": "1Gb: bits or bytes? use 1Gbit or 1GB/s", "1GB": "use 1Gbit or 1GB/s", "100Mb/s": "use 100Mbit or 100MB/s", "100": "100Mbit", "": "not a rate",
		"fast": "is not a rate", "1Tbit": "unknown unit", "1kbit": "from 1Mbit to 32Gbit", "33Gbit": "to 32Gbit", "-1Gbit": "from 1Mbit", "NaNMbit": "is not a rate",
		"1Gbit/fast": "delay", "1Gbit/-1ms": "delay", "1Gbit/1h": "from 2ms to 2s", "1Gbit/0s": "delay", "unshaped/1ms": "from 2ms to 2s",
		"unshaped/25ms": "unshaped/25ms: a delay needs a rate, such as 1Gbit/25ms", "unshaped/2s/50%": "needs a rate", "1Gbit/": "delay",
		"unshaped/": "delay", "1Gbit/5ms/100%": "at most 50%", "1Gbit/5ms/0%": "above 0%", "1Gbit/5ms/0.1": "loss", "1Gbit/5ms/NaN%": "loss", "1Gbit/5ms/1%/2": "loss", "1Gbit//1%": "delay",
	} {
		check.Fails(t, check.Err(link.Parse(text)), want, text)
	}
	var old link.Rate
	check.Must(t, old.UnmarshalText([]byte("unshaped/25ms/1%"))) // of an older result
	check.Equal(t, old.String(), "unshaped/25ms/1%")
}
