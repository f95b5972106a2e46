package batched

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
	"ipcbench/phase"
	pb "ipcbench/transports/batched/federationpb"
)

// frames returns a connection to the server on which HTTP/2 may be spoken, frame
// by frame.
func (r *rig) frames() *http2.Framer {
	r.t.Helper()
	conn := r.connect()
	f := http2.NewFramer(conn, conn)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	_, err := io.WriteString(conn, http2.ClientPreface)
	check.Must(r.t, errors.Join(err, f.WriteSettings()))
	return f
}

// connect returns a connection to the server on which nothing was said.
func (r *rig) connect() net.Conn {
	r.t.Helper()
	conn, err := r.at.Dial(limited(r.t), nil)
	check.Must(r.t, err)
	r.t.Cleanup(func() { conn.Close() })
	waiting.Conn(r.t, conn)
	return conn
}

// headers returns what starts a call of method on a stream, and shows what it is
// given unless that is empty.
func headers(t *testing.T, method, shown string) func(stream uint32) http2.HeadersFrameParam {
	t.Helper()
	var head strings.Builder
	e := hpack.NewEncoder(&head)
	for _, h := range [][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":path", method},
		{":authority", "x"}, {"content-type", "application/grpc"}, {"te", "trailers"}, {secretKey, shown},
	} {
		if h[1] == "" {
			continue
		}
		if err := e.WriteField(hpack.HeaderField{Name: h[0], Value: h[1], Sensitive: true}); err != nil { // in no table, so that it may be sent again
			t.Fatal(err)
		}
	}
	return func(stream uint32) http2.HeadersFrameParam {
		return http2.HeadersFrameParam{StreamID: stream, BlockFragment: []byte(head.String()), EndHeaders: true}
	}
}

// TestStrangersHoldNothing: messages of whoever does not know the secret are
// refused before they are taken. Here a hundred announce 60 MB each and send a
// MiB of it: no memory is held, and a session goes on.
func TestStrangersHoldNothing(t *testing.T) {
	const conns, streams, part = 13, 8, 1 << 20
	r := open(t, "grpc-stream:network=tcp", twenty(t), 1)
	r.round(0, 2)
	var all []*http2.Framer
	for range conns { // what an idle connection costs is not what this is about
		f := r.frames()
		_, err := f.ReadFrame()
		check.Need(t, err == nil, "%v", err)
		all = append(all, f)
	}
	before := heap()
	upload := headers(t, pb.Federation_SendLocalTaskResults_FullMethodName, "")
	piece := make([]byte, 16<<10)
	for _, f := range all {
		refusals := 0
		for s := uint32(0); s < streams; s++ {
			id := 2*s + 1
			err := errors.Join(f.WriteHeaders(upload(id)), f.WriteData(id, false, binary.BigEndian.AppendUint32([]byte{0}, 60_000_000)))
			for n := 0; n < part && err == nil; n += len(piece) {
				err = f.WriteData(id, false, piece)
			}
			check.Must(t, err)
		}
		check.Must(t, f.WritePing(false, [8]byte{1}))
		for answered := false; !answered || refusals < streams; { // the answer to the ping: all was taken in
			frame, err := f.ReadFrame()
			check.Must(t, err, "after", refusals, "refusals")
			switch frame := frame.(type) {
			case *http2.PingFrame:
				answered = answered || frame.IsAck()
			case *http2.MetaHeadersFrame:
				if got := fieldOf(frame, "grpc-status"); got != "16" { // UNAUTHENTICATED
					t.Fatalf("got status %q, want 16", got)
				}
				refusals++
			}
		}
	}
	held := heap() - before
	check.That(t, held <= conns*streams*part/8, "strangers who sent %d bytes make the server hold %d", conns*streams*part, held)
	r.round(1, 4)
}

func fieldOf(h *http2.MetaHeadersFrame, name string) string {
	for _, f := range h.Fields {
		if f.Name == name {
			return f.Value
		}
	}
	return ""
}

// flood makes connections on which nothing is said, ever new ones and several
// hundred at a time, until stop.
func (r *rig) flood() (stop func()) {
	ctx, cancel := context.WithCancel(r.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		var all []net.Conn
		for n := 0; ctx.Err() == nil; n++ {
			if n%4 == 0 { // more than four thousand a second would only take all processors
				waiting.Pause(time.Millisecond)
			}
			c, err := r.at.Dial(ctx, nil)
			if err != nil {
				check.That(r.t, ctx.Err() != nil, "%v", err)
				break
			}
			if all = append(all, c); len(all) > 600 {
				all[0].Close()
				all = all[1:]
			}
		}
		for _, c := range all {
			c.Close()
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// TestStrangersAreFew: of those who connect and do not show the secret few are
// kept, and a worker finds its way through them, also if it connects
// for every call.
func TestStrangersAreFew(t *testing.T) {
	for _, name := range []string{"grpc-stream:network=tcp", "grpc-stream:conn=per-call"} {
		r := open(t, name, twenty(t), 1)
		oldest := r.connect()
		stop := r.flood()
		if err := ended(oldest); err != nil { // there are as many as there may be
			t.Errorf("%s: the oldest: %v", name, err)
		}
		for n := range 5 {
			check.OK(t, r.exchange(0, jobOf(0, n)))
			if n := r.server.listener.Count(); n > 256+4+10 { // those of the worker's calls of which the server has not seen the end
				t.Errorf("%s: %d connections are open", name, n)
			}
		}
		late, _ := r.stranger(grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return r.at.Dial(ctx, nil) })) // while they come
		_, err := late.Ping(limited(t), &pb.PingRequest{})
		check.That(t, err == nil, "%v", err)
		stop()
		r.shutdown()
	}
}

// ended returns an error unless the server has closed c.
func ended(c net.Conn) error {
	_, err := io.Copy(io.Discard, c) // the server's settings may have come
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	return nil // its end, or a reset: gRPC gave up with bytes unread
}

// TestCountedBeforeItIsSeen: no end has received what the other has not counted as
// sent, at no time, so a round that ends with bytes has counted them.
func TestCountedBeforeItIsSeen(t *testing.T) {
	for _, name := range []string{"grpc-batch", "grpc-stream:network=tcp"} {
		r := open(t, name, layoutOf(t, 1<<18, 1<<16), 1)
		over := make(chan error, 1)
		go func() {
			var err error
			for n := 0; n < 40 && err == nil; n++ {
				err = r.exchange(0, jobOf(0, n))
			}
			over <- err
		}()
		ends := [2]*phase.Recorder{r.recs[0], r.recs[1]}
		for done := false; !done; {
			select {
			case err := <-over:
				check.Must(t, err)
				done = true
			default:
			}
			for i, to := range ends {
				received := to.Counts()[phase.WireReceived]
				if sent := ends[1-i].Counts()[phase.WireSent]; received > sent {
					t.Fatalf("%s: %d bytes were received of %d that were sent", name, received, sent)
				}
			}
		}
		r.shutdown()
	}
}

// TestRecordedBeforeCollect: what the server did for an update is on record when
// Collect returns, since the round may end with that.
func TestRecordedBeforeCollect(t *testing.T) {
	r := open(t, "grpc-batch", twenty(t), 1)
	for n := range 300 {
		check.Must(t, r.exchange(0, jobOf(0, n)))
		samples, _ := r.recs[0].Drain()
		found := map[phase.Phase]int{}
		for _, s := range samples {
			if int(s.Client) == n {
				found[s.Phase]++
			}
		}
		check.Need(t, found[phase.Decode] == 1 && found[phase.Read] == 1 && found[phase.Encode] == 1,
			"job %d: got %v, want that reading, decoding and encoding were recorded once each", n, found)
	}
}

// TestLaneIsTaken: a lane is one worker's, who may say again that it is there; another
// one learns whose it is, and the worker does not notice.
func TestLaneIsTaken(t *testing.T) {
	r := listen(t, "grpc-batch", twenty(t), 1)
	client, _ := r.stranger()
	join := func(worker uint64) error {
		_, err := client.Join(limited(t), &pb.JoinRequest{
			Header: r.head(0), ModelDigest: r.o.Down.Digest(), UpdateDigest: r.o.Up.Digest(), Worker: worker,
		})
		return err
	}
	for _, worker := range []uint64{7, 7} {
		check.OK(t, join(worker))
	}
	refused(t, "another worker", join(8), taken, "lane-0")
	_, err := client.Leave(limited(t), &pb.LeaveRequest{Header: r.head(0)})
	check.That(t, err == nil, "%v", err)
	refused(t, "another worker after the first has left", join(8), taken, "lane-0")
}
