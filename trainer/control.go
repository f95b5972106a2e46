package trainer

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"ipcbench/phase"
	"ipcbench/phase/usage"
	"ipcbench/profile/capture"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
)

// A message travels on the control socket between a pool and a worker process.
// Exactly one of its fields is set.
type message struct {
	Assign  *assignment // to the worker: what it is; first message
	Mark    *mark       // to the worker: what is measured changes here
	Stop    *stop       // to the worker: worker functions should end early
	Ping    *ping       // to the worker of lane 0: all workers are connected
	Poke    *poke       // to the worker: say what you do
	Ready   *ready      // to the pool: all lanes are connected
	Pinged  *pinged     // to the pool: answer to Ping
	Marked  *marked     // to the pool: answer to Mark
	News    *news       // to the pool: answer to Poke
	Failure *failure    // to the pool: a lane has failed; the process ends
	Report  *report     // to the pool: all lanes have ended; last message
}

// assignment is everything that a worker process needs to know.
type assignment struct {
	Process    int
	Lanes      []int // that this process hosts
	Transport  string
	Settings   driver.Settings
	Down, Up   []tensor.Spec
	TotalLanes int
	Clients    int
	Depth      int
	Dir        string
	Addr       string
	Func       string
	FuncConfig []byte
	Samples    int // capacity of the recorder
	Window     Window
	Pings      int // that lane 0 makes before its first job
	Profiling  *Profiling
}

type ready struct{}

type ping struct{}

type poke struct{}

// pinged holds what each empty call took, in nanoseconds; none if the transport
// makes no calls.
type pinged struct{ Samples []int64 }

type mark struct {
	Window Window
	Round  int // the first one that is of the window
}

type marked struct {
	Full bool // the recorder may have no room for many more rounds
}

type stop struct{ Below int } // the first round that goes on

type failure struct {
	Lane, Round, Client int
	Text                string
}

type report struct{ Totals Totals }

// A Window names a part of a session whose costs are summed apart.
type Window string

// The windows of a session.
const (
	Outside Window = ""      // not measured
	Cold    Window = "cold"  // the first round
	Timed   Window = "timed" // the rounds whose times count
)

// Totals are what one process recorded over a session.
type Totals struct {
	Samples []phase.Sample
	Lost    int // samples for which there was no room
	Usage   map[Window]usage.Usage
	Counts  map[Window]map[string]int64 // counters
	Memory  usage.Memory                // at the end
	CPUs    []int                       // that the process could use

	Profiles []capture.Piece // of the window Timed
}

// errProtocol is a message that its sender may not send.
var errProtocol = errors.New("no message of this protocol")

// answers returns what a message to the pool answers, and its name.
func (m message) answers() (debt, string) {
	switch {
	case m.Ready != nil:
		return oweReady, "ready"
	case m.Pinged != nil:
		return owePinged, "the answer to a ping"
	case m.Marked != nil:
		return oweMarked, "the answer to a mark"
	case m.News != nil:
		return oweNews, "news"
	case m.Report != nil:
		return oweReport, "a report"
	}
	return 0, "a message for workers"
}

// control is one end of a control socket. Any goroutine may send.
type control struct {
	conn    net.Conn
	timeout time.Duration // of a send
	dec     *gob.Decoder
	got     int64        // bytes of the message that is being received
	ended   error        // of the connection, set by receive
	limit   atomic.Int64 // of got; 0 is none

	mu  sync.Mutex // guards enc
	enc *gob.Encoder
}

func newControl(conn net.Conn, timeout time.Duration) *control {
	c := &control{conn: conn, timeout: timeout, enc: gob.NewEncoder(conn)}
	c.dec = gob.NewDecoder(bounded{c})
	return c
}

// bounded is what a control's decoder reads from: the lengths that a peer claims
// are believed up to a limit.
type bounded struct{ *control }

func (b bounded) Read(to []byte) (int, error) {
	if limit := b.limit.Load(); limit > 0 {
		if b.got >= limit {
			return 0, fmt.Errorf("%w: more than %d bytes", errProtocol, limit)
		}
		to = to[:min(int64(len(to)), limit-b.got)]
	}
	n, err := b.conn.Read(to)
	b.got += int64(n)
	b.ended = err
	return n, err
}

// sendTimeout bounds one message: the peer reads all the time.
const sendTimeout = 10 * time.Second

func (c *control) send(m message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.conn.SetWriteDeadline(time.Now().Add(c.timeout)); err != nil {
		return fmt.Errorf("control socket: %w", err)
	}
	if err := c.enc.Encode(m); err != nil {
		return fmt.Errorf("control socket: %w", err)
	}
	return nil
}

// receive returns the next message. One goroutine receives.
func (c *control) receive() (message, error) {
	var m message
	c.got = 0
	if err := c.dec.Decode(&m); err != nil {
		return m, fmt.Errorf("control socket: %w", err)
	}
	return m, nil
}

// meter sums usage and counters of one process by window. Any goroutine may call
// it: a worker that is told of a mark may be at its end.
type meter struct {
	rec     *phase.Recorder
	capture *capture.Capture // nil unless the process is profiled

	mu         sync.Mutex                  // guards all that follows
	usage      map[Window]usage.Usage      // so far
	counts     map[Window]map[string]int64 // so far
	window     Window                      // that is open
	paused     bool                        // its usage is not
	sinceUsage usage.Usage
	sinceCount map[string]int64
	memory     usage.Memory // when the process was last outside of all windows
}

func newMeter(rec *phase.Recorder) *meter {
	return &meter{rec: rec, usage: map[Window]usage.Usage{}, counts: map[Window]map[string]int64{}}
}

// begin opens the first window with everything that this process has cost since
// its start.
func (m *meter) begin(w Window) {
	m.window = w
	// Present, so that their difference from what is read later is present too.
	m.sinceUsage = usage.Usage{Queue: &usage.Queue{}, IO: &usage.IO{}}
}

// mark moves the process to window w, of which round is the first round, and takes
// profiles while w is Timed.
func (m *meter) mark(w Window, round int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if w != Timed {
		if err := m.capture.Stop(); err != nil {
			return err
		}
	}
	if err := m.enter(w, round); err != nil {
		return err
	}
	if w == Timed {
		return m.capture.Start()
	}
	return nil
}

// enter ends the window that is open and begins w. m.mu is held.
func (m *meter) enter(w Window, round int) error {
	if w == m.window {
		return nil
	}
	now, err := usage.Read()
	if err != nil {
		return err
	}
	counts := m.rec.Counts()
	if m.window != Outside {
		if !m.paused {
			m.usage[m.window] = m.usage[m.window].Add(now.Since(m.sinceUsage))
		}
		sum := m.counts[m.window]
		if sum == nil {
			sum = map[string]int64{}
			m.counts[m.window] = sum
		}
		for name, n := range counts {
			if d := n - m.sinceCount[name]; d != 0 {
				sum[name] += d
			}
		}
	}
	if w == Timed { // only what is recorded of timed rounds is of interest, and takes room
		m.rec.From(round)
	} else {
		m.rec.Until(round)
	}
	m.window, m.paused, m.sinceUsage, m.sinceCount = w, false, now, counts
	return nil
}

// pause leaves what the process spends out of the window that is open, until it is
// called with false. What it counts stays in: the last bytes of a round may come
// after its end.
func (m *meter) pause(paused bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.window == Outside || m.paused == paused {
		return nil
	}
	now, err := usage.Read()
	if err != nil {
		return err
	}
	if paused {
		m.usage[m.window] = m.usage[m.window].Add(now.Since(m.sinceUsage))
	}
	m.paused, m.sinceUsage = paused, now
	return nil
}

// survey reads what the process has resident, while it has it: at the end of a
// session the shared memory is gone. It is no part of any window.
func (m *meter) survey() (err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.memory, err = usage.ReadMemory()
	return err
}

func (m *meter) totals() (Totals, error) {
	err := m.mark(Outside, math.MaxInt)
	m.mu.Lock()
	defer m.mu.Unlock()
	memory := m.memory
	var memErr error
	if now, e := usage.ReadMemory(); e != nil {
		memErr = e
	} else if memory.RSS == 0 { // the session ended before its first mark
		memory = now
	} else {
		memory.Peak = now.Peak
	}
	cpus, cpusErr := usage.Affinity()
	samples, lost := m.rec.Drain()
	return Totals{
			Samples: samples, Lost: lost, Counts: m.counts, Usage: m.usage, Memory: memory, CPUs: cpus,
			Profiles: m.capture.Pieces(),
		},
		errors.Join(err, memErr, cpusErr)
}

// awaitClosed waits until done is closed, for d at most.
func awaitClosed(ctx context.Context, done <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}
