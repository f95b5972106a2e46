package clock

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ipcbench/internal/skip"
	"ipcbench/internal/waiting"
	"ipcbench/phase"
)

// pair returns both ends of a TCP connection.
func pair(t testing.TB) (ours, theirs net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if ours, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if theirs, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ours.Close(); theirs.Close() })
	return ours, theirs
}

// A world has two clocks: ours, which can be put forward as if time had passed, and
// theirs, which is ahead of it and faster.
type world struct {
	passed, stepped atomic.Int64
	ahead           int64
	faster          float64
	begun           int64
}

func (w *world) ours() int64 { return phase.Now() + w.passed.Load() }

func (w *world) theirs() int64 {
	at := w.ours()
	return at + w.ahead + int64(float64(at-w.begun)*w.faster) + w.stepped.Load()
}

// bursts returns the bounds of two real bursts, between which so much time passes and
// their clock steps by so much.
func (w *world) bursts(t *testing.T, between, step time.Duration) (before, after Bounds) {
	t.Helper()
	w.begun = phase.Now()
	conn, theirs := pair(t)
	answered := make(chan error, 1)
	go func() { answered <- Answer(theirs, w.theirs) }()
	bounds := func() Bounds {
		b, err := Ask(conn, w.ours, Exchanges)
		if err != nil {
			t.Fatal(err)
		}
		bounds, err := b.Bounds()
		if err != nil || len(b) != Exchanges {
			t.Fatalf("%v of %+v", err, b)
		}
		return bounds
	}
	before = bounds()
	w.passed.Add(int64(between))
	w.stepped.Add(int64(step))
	after = bounds()
	conn.Close()
	if err := <-answered; err != nil {
		t.Fatal(err)
	}
	return before, after
}

// TestShift: the bounds hold a constant shift of 100,000 s.
func TestShift(t *testing.T) {
	w := &world{ahead: 100_000e9}
	before, after := w.bursts(t, time.Second, 0)
	if !before.Hold(w.ahead) || !after.Hold(w.ahead) {
		t.Errorf("got %+v and %+v, want %d in them", before, after, w.ahead)
	}
	line, err := Between(before, after)
	if err != nil || max(line.Offset()-w.ahead, w.ahead-line.Offset()) > line.Width() {
		t.Errorf("got %+v, %v", line, err)
	}
}

// TestDrift: a drift of 50 ppm over 10 s is followed.
func TestDrift(t *testing.T) {
	// Their machine started later than this one, which may have started a minute ago: no
	// clock is before its own start.
	w := &world{ahead: -phase.Now() / 2, faster: 50e-6}
	before, after := w.bursts(t, 10*time.Second, 0)
	line, err := Between(before, after)
	if err != nil {
		t.Fatal(err)
	}
	for at := before.At; at <= after.At; at += int64(time.Second) {
		theirs := at + w.ahead + int64(float64(at-w.begun)*w.faster)
		// A drift that is even is followed within the bounds of the bursts.
		if off := line.Ours(theirs) - at; max(off, -off) > max(before.half(), after.half())+1 {
			t.Errorf("after %v: off by %v, bounds of ±%v", time.Duration(at-before.At), time.Duration(off), time.Duration(before.half()))
		}
	}
	t.Logf("%.2f ppm, bounds ±%v and ±%v", line.Drift(), time.Duration(before.half()), time.Duration(after.half()))
}

// TestStep: a step of 1 ms in a block of 1 s, and one of 10 ms in 10 s, is found and
// named.
func TestStep(t *testing.T) {
	for _, tt := range []struct{ between, by time.Duration }{
		{time.Second, time.Millisecond}, {time.Second, -time.Millisecond}, {10 * time.Second, 10 * time.Millisecond},
	} {
		var before, after Bounds
		waiting.Until(t, "narrow bounds", func() bool { // on a busy machine they are wide
			before, after = new(world).bursts(t, tt.between, tt.by)
			return before.half()+after.half() <= int64(tt.by.Abs())/3
		})
		_, err := Between(before, after)
		var step *Step
		if !errors.As(err, &step) || (step.By-tt.by).Abs() > tt.by.Abs()/3 || !strings.Contains(err.Error(), "the clock stepped: within 1") {
			t.Errorf("%v in %v: got %v", tt.by, tt.between, err)
		}
	}
}

// addrEnv makes the test's own program answer at the other end of a connection.
const addrEnv = "IPCBENCH_TEST_CLOCK"

func TestMain(m *testing.M) {
	if addr := os.Getenv(addrEnv); addr != "" {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			_, err = io.WriteString(conn, fmt.Sprintf("%-32s", Here().Time))
		}
		if err == nil {
			err = Answer(conn, phase.Now)
		}
		if err != nil {
			os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestNamespace: of a process in a time namespace whose monotonic clock is 100,000 s
// ahead, the interval holds 100,000 s, and nobody takes its clock for ours.
func TestNamespace(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := exec.LookPath("unshare"); err != nil {
		skip.Missing(t, "unshare (Debian: util-linux)")
	}
	var stderr strings.Builder
	cmd := exec.Command("unshare", "--map-root-user", "--time", "--monotonic", "100000", os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), addrEnv+"="+l.Addr().String()), &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait(); l.Close() }()
	conn, err := l.Accept()
	if err != nil {
		skip.Refused(t, "a time namespace: %v: %s", <-ended, stderr.String())
	}
	name := make([]byte, 32)
	if _, err := io.ReadFull(conn, name); err != nil {
		t.Fatal(err)
	}
	if theirs := (ID{Here().Boot, strings.TrimSpace(string(name))}); theirs.Same(Here()) {
		t.Errorf("%+v is taken for this process's clock", theirs)
	}
	ask := func() Bounds {
		b, err := Ask(conn, phase.Now, Exchanges)
		if err != nil {
			t.Fatal(err)
		}
		bounds, err := b.Bounds()
		if err != nil {
			t.Fatal(err)
		}
		return bounds
	}
	before, after := ask(), ask()
	const ahead = 100_000e9
	if !before.Hold(ahead) || !after.Hold(ahead) {
		t.Errorf("got %+v and %+v, want %v in them", before, after, time.Duration(ahead))
	}
	line, err := Between(before, after)
	t.Logf("100,000 s and %v ± %v, bursts of ±%v and ±%v", time.Duration(line.Offset()-ahead), time.Duration(line.Width()),
		time.Duration(before.half()), time.Duration(after.half()))
	if err != nil || line.Same() || line.Width() > int64(20*time.Millisecond) {
		t.Errorf("got %+v, %v", line, err)
	}
	conn.Close()
	if err := <-ended; err != nil {
		t.Errorf("the other process: %v: %s", err, stderr.String())
	}
}

// FuzzAsk: whatever another host answers, the numbers are checked before they are
// reckoned with, and bounds that come of them are in order.
func FuzzAsk(f *testing.F) {
	answers := func(times ...int64) (b []byte) {
		for _, t := range times {
			b = binary.BigEndian.AppendUint64(b, uint64(t))
		}
		return b
	}
	f.Add(answers(1000, 1001, 2000, 2001), true)
	f.Add(answers(2000, 2001, 1000, 1001), true)
	f.Add(answers(-1, 5), true)
	f.Add(answers(latest, latest+1), true)
	f.Add(answers(5, 4), true)
	f.Add(answers(latest, latest), true)
	f.Add(answers(1<<63-1, 1<<62), false)
	f.Add([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"), false)
	f.Fuzz(func(t *testing.T, data []byte, echo bool) {
		n := max(1, len(data)/(answerSize-questionSize))
		ours, theirs := net.Pipe()
		defer ours.Close()
		go func() {
			defer theirs.Close()
			for question := make([]byte, questionSize); len(data) > 0; {
				if _, err := io.ReadFull(theirs, question); err != nil {
					return
				}
				n := answerSize
				if echo {
					n -= questionSize
					if _, err := theirs.Write(question); err != nil {
						return
					}
				}
				n = min(n, len(data))
				if _, err := theirs.Write(data[:n]); err != nil {
					return
				}
				data = data[n:]
			}
		}()
		b, err := Ask(ours, phase.Now, n)
		if err != nil {
			if b != nil || !strings.HasPrefix(err.Error(), "clock: ask: ") {
				t.Fatalf("got %v, %v", b, err)
			}
			return
		}
		last := int64(0)
		for _, x := range b {
			if x.Got < last || x.Answered < x.Got || x.Answered > latest {
				t.Fatalf("got %+v", b)
			}
			last = x.Answered
		}
		bounds, err := b.Bounds()
		var step *Step
		if (err == nil) == (bounds.Low > bounds.High) && !errors.As(err, &step) {
			t.Fatalf("got %+v, %v of %+v", bounds, err, b)
		}
	})
}

// FuzzAnswer: there is one answer to each whole question, whatever comes.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte("12345678"))
	f.Add([]byte("123456781234"))
	f.Fuzz(func(t *testing.T, data []byte) {
		ours, theirs := net.Pipe()
		answered := make(chan error, 1)
		go func() { answered <- Answer(theirs, phase.Now); theirs.Close() }()
		written := make(chan struct{})
		go func() { defer close(written); ours.Write(data) }()
		got := make([]byte, answerSize*(len(data)/questionSize))
		if _, err := io.ReadFull(ours, got); err != nil {
			t.Fatal(err)
		}
		for i := range len(data) / questionSize {
			if string(got[i*answerSize:][:questionSize]) != string(data[i*questionSize:][:questionSize]) {
				t.Fatalf("answer %d is to another question", i)
			}
		}
		<-written
		ours.Close()
		if err := <-answered; (err == nil) != (len(data)%questionSize == 0) {
			t.Fatalf("%d bytes: %v", len(data), err)
		}
	})
}
