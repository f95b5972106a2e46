package trainer

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/semaphore"

	"ipcbench/internal/reexec"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/mutate"
	"ipcbench/internal/test/waiting"
	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
	"ipcbench/transports/endpoint"
	"ipcbench/transports/inproc"
	"ipcbench/transports/pickle"
)

// impostors launches peers that use a control socket but do not behave as workers.
type impostors func(conn net.Conn)

func (speak impostors) Name() string { return "impostors" }

func (speak impostors) Launch(int) (Process, error) {
	ours, theirs := net.Pipe()
	p := &inside{conn: ours, exited: make(chan struct{})}
	go func() {
		defer close(p.exited)
		defer theirs.Close()
		reading := make(chan struct{})
		go func() {
			defer close(reading)
			_, _ = io.Copy(io.Discard, theirs)
		}()
		speak(theirs)
		<-reading
	}()
	return p, nil
}

func socketpair(t *testing.T) (one, other net.Conn) {
	t.Helper()
	var ends [2]net.Conn
	for n, f := range check.Value(reexec.Socketpair())(t) {
		var err error
		ends[n], err = net.FileConn(f)
		check.Must(t, errors.Join(err, f.Close()))
		t.Cleanup(func() { _ = ends[n].Close() })
	}
	return ends[0], ends[1]
}

// framed encodes each message as one frame.
func framed(texts ...string) (b []byte) {
	for _, text := range texts {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(text))), text...)
	}
	return b
}

func jsonOf(t testing.TB, m message) string {
	t.Helper()
	return string(check.Value(json.Marshal(m))(t))
}

// says returns an impostor that sends a hello and then messages.
func says(messages ...message) func(net.Conn) {
	return func(conn net.Conn) {
		c := &control{conn: conn, timeout: time.Minute}
		for _, m := range append([]message{{Hello: newHello()}}, messages...) {
			if c.send(m) != nil {
				return
			}
		}
	}
}

// writes returns an impostor that writes text several times.
func writes(text []byte, times int) func(net.Conn) {
	return func(conn net.Conn) {
		for range times {
			if _, err := conn.Write(text); err != nil {
				return
			}
		}
	}
}

// greets returns an impostor that sends a hello and then text as one message.
func greets(text string) func(net.Conn) {
	return func(conn net.Conn) {
		says()(conn)
		writes(framed(text), 1)(conn)
	}
}

// shakes returns an impostor that reports handshakes.
func shakes(n, time int64, cipher string) func(net.Conn) {
	return says(message{Ready: &ready{Handshakes: n, HandshakeTime: time, Cipher: cipher}})
}

// TestImpostors: a message out of turn or too long on a control socket fails the session.
// The error names the process, and little memory is allocated.
func TestImpostors(t *testing.T) {
	var flood []message
	for range 100_000 {
		flood = append(flood, message{Ready: &ready{}})
	}
	own, other := newHello(), newHello()
	other.Build = strings.Repeat("another", 100)
	for name, c := range map[string]struct {
		speak func(net.Conn)
		want  string
	}{
		"garbage":            {writes([]byte("GET / HTTP/1.1\r\n\r\n"), 1000), "sent an invalid message"},
		"zeros":              {writes(make([]byte, 1<<10), 1<<14), "sent an invalid message"},
		"a claim of 4 GiB":   {writes([]byte{255, 255, 255, 255}, 1), "it has 4294967295 bytes, and must have at most 524288"},
		"a claim of 16 MiB":  {writes([]byte{1, 0, 0, 0}, 1), "it has 16777216 bytes, and must have at most 524288"},
		"a claim of 512 KiB": {writes([]byte{0, 8, 0, 0}, 1), "has not answered"}, // the announced bytes never arrive
		"16 MiB":             {greets(`{"failure":{"text":"` + strings.Repeat("x", 1<<24) + `"}}`), "must have at most 524288"},
		"half a message":     {writes(framed(`{"hello":{}}`)[:9], 1), "has not answered"},
		"many lanes":         {greets(`{"news":{"lanes":[` + strings.Repeat("{},", 170_000) + `{}]}}`), "unrequested news"},
		"depth":              {greets(`{"news":` + strings.Repeat("[", 500_000)), "exceeded max depth"},
		"no JSON":            {greets("ready"), "invalid character"},
		"nothing":            {greets("{}"), "must be one object with one key"},
		"null":               {greets(`{"ready":null}`), "must be one object with one key"},
		"two at once":        {greets(`{"ready":{},"news":{}}`), "must be one object with one key"},
		"two in a frame":     {greets(`{"ready":{}} {"ready":{}}`), "must be one object with one key"},
		"an unknown type":    {greets(`{"reboot":{}}`), `unknown field "reboot"`},
		"no hello":           {writes(framed(`{"ready":{}}`), 1), "the peer runs an unknown version, this process version 4 of build"},
		"two hellos":         {says(message{Hello: newHello()}), "unrequested hello"},
		"another version":    {writes(framed(fmt.Sprintf(`{"hello":{"protocol":5,"build":%q}}`, own.Build)), 1), "the peer runs version 5 of build "},
		"another build": {func(conn net.Conn) {
			_ = (&control{conn: conn, timeout: time.Minute}).send(message{Hello: other})
		}, `ano", this process version 4 of build "` + own.Build},
		"an odd cipher":      {shakes(1, 1, "\x1b[2J"), `with cipher "\x1b[2J"`},
		"no cipher":          {shakes(1, 1, ""), `1 handshakes in 1 ns with cipher ""`},
		"sign without TLS":   {greets(`{"sign":{}}`), "unrequested sign"},
		"signed":             {greets(`{"signed":{}}`), "unrequested signed"},
		"ready twice":        {says(message{Ready: &ready{}}, message{Ready: &ready{}}), "unrequested ready"},
		"a flood":            {says(flood...), "unrequested ready"},
		"pinged":             {greets(`{"pinged":{}}`), "unrequested pinged"},
		"marked":             {greets(`{"marked":{}}`), "unrequested marked"},
		"report":             {greets(`{"report":{}}`), "unrequested report"},
		"proof":              {greets(`{"proof":{}}`), "unrequested proof"},
		"a server's":         {greets(`{"mark":{}}`), "unrequested mark"},
		"a failure of lanes": {greets(`{"failure":{"lane":7}}`), "the failure of lane 7, which it does not host"},
		"silence":            {func(net.Conn) {}, "has not answered"},
		"the end": {func(c net.Conn) {
			check.OK(t, c.Close())
			awaitClosed(nil, deathGrace+time.Second) // the goroutine outlives its socket
		}, "closed its control socket, and it is a goroutine"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := configOf(t, inproc.New(), "off", impostors(c.speak))
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				p, err := Open(context.Background(), cfg)
				if err == nil { // an impostor that sent ready is accepted at first
					waiting.Receive(t, "the end of a session", p.failed.Done())
					err = p.explain(0, nil)
					_, _ = p.Close()
				}
				runtime.ReadMemStats(&after)
				check.Fails(t, err, "process 0 ")
				check.Fails(t, err, c.want)
				grown := after.TotalAlloc - before.TotalAlloc
				check.That(t, grown <= 48<<20, "%d bytes were allocated", grown)
			})
		})
	}
}

// TestHostilePools: a worker process that gets an invalid message ends with an error that
// says why.
func TestHostilePools(t *testing.T) {
	assign := func(change func(a *assignment)) []byte {
		a := assignment{Lanes: []int{0}, TotalLanes: 1, Depth: 1, Transport: "pickle", Func: "none"}
		change(&a)
		return framed(jsonOf(t, message{Hello: newHello()}), jsonOf(t, message{Assign: &a}))
	}
	for name, c := range map[string]struct {
		text []byte
		want string
	}{
		"garbage":         {[]byte("SSH-2.0-OpenSSH_9.9\r\n"), "must have at most 1073741824"},
		"4 GiB":           {[]byte{255, 255, 255, 255}, "must have at most 1073741824"},
		"another version": {framed(`{"hello":{"protocol":0,"build":"x"}}`), `the peer runs version 0 of build "x", this process version 4`},
		"no hello":        {framed(`{"assign":{}}`), "the peer runs an unknown version, this process version 4 of build"},
		"no assignment":   {framed(jsonOf(t, message{Hello: newHello()}), `{"poke":{}}`), "waiting for an assignment"},
		"no lanes":        {assign(func(a *assignment) { a.Lanes = nil }), "lanes [] of 1"},
		"another lane":    {assign(func(a *assignment) { a.Lanes[0] = 1 }), "lanes [1] of 1"},
		"an authority":    {assign(func(a *assignment) { a.Func, a.Trust = "any", endpoint.Trust{Authority: []byte("me")} }), "process 0: the authority's certificate: "},
		"a type":          {assign(func(a *assignment) { a.Down = []tensor.Spec{{DType: 77}} }), "unknown dtype"},
		"a function":      {assign(func(*assignment) {}), `no worker function "none"`},
	} {
		t.Run(name, func(t *testing.T) {
			ours, ended := hosted(t)
			check.Must(t, check.Err(ours.Write(c.text)))
			check.Fails(t, ended(), c.want)
		})
	}
}

// TestEveryField: each bad value in a field of a ready message or an assignment is rejected, except for texts of a trusted
// server.
func TestEveryField(t *testing.T) {
	for allowed, m := range map[string]message{
		`:null|software.* ".{0,99}$`: {Ready: &ready{1, 2, "TLS_AES_128_GCM_SHA256", map[string]string{"python": "3"}, 4}},
		`:null|(addr|secret|transport|func|window) "|(process|clients|depth) (-1|9)`: {Assign: &assignment{Lanes: []int{0}, TotalLanes: 1, Depth: 1, Samples: 1, Pings: 1}},
	} {
		mutate.JSON(t, []byte(jsonOf(t, m)), allowed, func(place string, text []byte) {
			m, err := parse(text)
			switch {
			case m.Ready != nil:
				err = m.Ready.check()
			case m.Assign != nil:
				err = m.Assign.check()
			}
			check.Is(t, err, errProtocol, place, string(text))
		})
	}
}

// hosted starts a worker process as a goroutine. ended waits for its end and returns its
// error.
func hosted(t *testing.T) (ours net.Conn, ended func() error) {
	t.Helper()
	ours, theirs := socketpair(t)
	end := make(chan error, 1)
	go func() {
		end <- Host{Transports: []driver.Transport{pickle.New()}, Funcs: map[string]Func{"any": idle}}.serve(theirs)
	}()
	return ours, func() error {
		t.Helper()
		return waiting.Receive(t, "the end of a process", end)
	}
}

// TestUnruly: a worker process that gets an invalid message after its assignment ends with
// an error.
func TestUnruly(t *testing.T) {
	for name, c := range map[string]struct {
		text []byte
		want string
	}{
		"signed":            {framed(`{"signed":{}}`), "signed"}, // the process has not asked for a signature
		"ping twice":        {framed(`{"ping":{}}`, `{"ping":{}}`), "ping"},
		"assigned again":    {framed(`{"assign":{}}`), "assign"},
		"a process's":       {framed(`{"ready":{}}`), "ready"},
		"a long message":    {[]byte{0, 255, 255, 255}, "it has 16777215 bytes"},
		"an unknown window": {framed(`{"mark":{"window":"rose","round":1}}`), `no window "rose"`},
	} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := socketpair(t)
			ctx, cancel := context.WithCancelCause(t.Context())
			w := &process{quiet: make(chan struct{}), busy: semaphore.NewWeighted(MaxWorkers)}
			go w.listen(ctx, cancel, &control{conn: theirs, timeout: sendTimeout, limit: shortMessage, met: true})
			check.Must(t, check.Err(ours.Write(c.text)))
			waiting.Receive(t, "the end of a process", ctx.Done())
			check.Is(t, context.Cause(ctx), errProtocol)
			check.Fails(t, context.Cause(ctx), c.want)
		})
	}
}

// TestAssignmentIsNotPrinted: formatting an assignment never prints its contents, so no log
// gets the secret.
func TestAssignmentIsNotPrinted(t *testing.T) {
	a := assignment{Addr: "whispered"}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		got := fmt.Sprintf(format, a) + fmt.Sprintf(format, &a) + fmt.Sprintf(format, message{Assign: &a})
		check.That(t, !strings.Contains(got, "whisper"), "%s: %s", format, got)
	}
}

// TestPlaces: the state of a process on another host is never looked up on this host.
func TestPlaces(t *testing.T) {
	self := here(os.Getpid())
	for p, want := range map[Place]string{
		self:                              fmt.Sprintf("pid %d is running (R)", self.PID),
		here(0):                           "it is a goroutine",
		{Host: "node7", PID: os.Getpid()}: fmt.Sprintf("it is pid %d on node7", self.PID),
	} {
		got := p.state()
		check.That(t, (got == want || p == self) && strings.HasPrefix(got, want[:5]), "%+v: got %q, want %q", p, got, want)
	}
}

// FuzzParse: an accepted message encodes to bytes that parse to the same message, and the
// samples of an accepted report are in range.
func FuzzParse(f *testing.F) {
	sent := fullReport(3)
	sent.Profiles = []phase.Piece{{Kind: "cpu", Data: []byte("a"), Before: []byte("b")}}
	for _, m := range []message{
		{Hello: newHello()}, {Assign: &assignment{Lanes: []int{1}, Down: []tensor.Spec{{Name: "x", DType: tensor.F32, Shape: []int{3}}}}},
		{Mark: &mark{Window: Timed, Round: 3}}, {Stop: &stop{2}}, {Ping: &ping{}}, {Poke: &poke{}},
		{Sign: &sign{[]byte("x")}}, {Signed: &signed{[]byte("y")}}, {Ready: &ready{Handshakes: 2, HandshakeTime: 3, Cipher: "TLS_AES_128_GCM_SHA256"}},
		{Pinged: &pinged{[]int64{1}}}, {Marked: &marked{true}}, {News: &news{Lanes: []laneNews{{Doing: training}}}},
		{Failure: &failure{Text: "x"}}, {Proof: &proof{1, 2, 3, "00", "01"}}, {Report: newReport(sent)},
	} {
		f.Add([]byte(jsonOf(f, m)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parse(b)
		if err != nil {
			return
		}
		first := check.Value(json.Marshal(m))(t)
		again, err := parse(first)
		check.Must(t, err, first)
		second, err := json.Marshal(again)
		check.Need(t, err == nil && bytes.Equal(first, second), "%s became %s, %v", first, second, err)
		cfg := &Config{Samples: 4096, Profiling: &Profiling{Kinds: []string{"cpu"}}}
		if m.Report == nil || m.Report.complete(cfg, func(lane int) bool { return lane == 2 || lane == 3 }) != nil {
			return
		}
		samples := m.Report.Totals.Samples
		check.Need(t, len(samples) <= cfg.Samples, "%d samples", len(samples))
		for _, s := range samples {
			check.Need(t, s.Phase > phase.Dispatch && slices.Contains(phase.Phases(), s.Phase) && s.Start >= 0 && s.End >= s.Start &&
				s.Lane >= -1 && s.Lane <= 3 && s.Round >= -1 && s.Client >= -1, "%+v", s)
		}
	})
}

// TestMarkAtTheEnd: a worker can get a mark while it computes its totals. The race detector
// checks the accesses.
func TestMarkAtTheEnd(t *testing.T) {
	for range 200 {
		m := newMeter(nil)
		m.begin(Cold)
		var wg sync.WaitGroup
		wg.Go(func() {
			check.OK(t, errors.Join(m.mark(Timed, 1), m.survey(), m.mark(Outside, 2)))
		})
		totals, err := m.totals()
		wg.Wait()
		check.OK(t, err)
		_, ok := totals.Usage[Cold]
		check.That(t, ok, "the first window is missing")
	}
}

// TestStartLimit: the time limit for starting a session grows with its memory. Sixteen
// lanes with two updates of 3.35 GB each need 71 s to touch it at 1.5 GB/s.
func TestStartLimit(t *testing.T) {
	for need, want := range map[int64]time.Duration{0: time.Minute, 107_200_000_000: time.Minute + 214*time.Second, 1 << 62: startTimeout + 1<<20*time.Second} {
		check.Equal(t, startLimit(need), want, "a session of", need, "bytes may take to start")
	}
}
