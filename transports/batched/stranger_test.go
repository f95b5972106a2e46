package batched

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
	"ipcbench/phase"
	pb "ipcbench/transports/batched/federationpb"
)

// frames returns a new connection to the server, ready for HTTP/2 frames.
func (r *rig) frames() *http2.Framer {
	r.T.Helper()
	conn := check.Value(r.Endpoint.Dial(waiting.Context(r.T), nil))(r.T)
	r.T.Cleanup(func() { conn.Close() })
	waiting.Conn(r.T, conn)
	f := http2.NewFramer(conn, conn)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	_, err := io.WriteString(conn, http2.ClientPreface)
	check.Must(r.T, errors.Join(err, f.WriteSettings()))
	return f
}

// uploads returns the header frame that starts an upload on a stream with a secret.
func uploads(t *testing.T, stream uint32, secret string) http2.HeadersFrameParam {
	t.Helper()
	var head bytes.Buffer
	e := hpack.NewEncoder(&head)
	for _, h := range [][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":path", pb.Federation_SendLocalTaskResults_FullMethodName},
		{":authority", "x"}, {"content-type", "application/grpc"}, {"te", "trailers"}, {secretKey, secret},
	} {
		check.Must(t, e.WriteField(hpack.HeaderField{Name: h[0], Value: h[1], Sensitive: true})) // never indexed, so that each frame is complete in itself
	}
	return http2.HeadersFrameParam{StreamID: stream, BlockFragment: head.Bytes(), EndHeaders: true}
}

func statusOf(h *http2.MetaHeadersFrame) string {
	for _, f := range h.Fields {
		if f.Name == "grpc-status" {
			return f.Value
		}
	}
	return ""
}

// TestStrangersHoldNothing: messages of clients without the secret are refused before they
// are read. Here 104 announce 60 MB each and send 1 MiB: little memory is held, and the
// session continues.
func TestStrangersHoldNothing(t *testing.T) {
	const conns, streams, part = 13, 8, 1 << 20
	r := open(t, "grpc-stream:network=tcp", twenty(t), 1)
	r.Round(0, 2)
	var all []*http2.Framer
	for range conns { // connects before measuring, because idle connections also need memory
		f := r.frames()
		check.Must(t, check.Err(f.ReadFrame()))
		all = append(all, f)
	}
	before := heap()
	piece := make([]byte, 16<<10)
	for _, f := range all {
		for id := uint32(1); id < 2*streams; id += 2 {
			err := errors.Join(f.WriteHeaders(uploads(t, id, "")), f.WriteData(id, false, binary.BigEndian.AppendUint32([]byte{0}, 60_000_000)))
			for n := 0; n < part && err == nil; n += len(piece) {
				err = f.WriteData(id, false, piece)
			}
			check.Must(t, err)
		}
		check.Must(t, f.WritePing(false, [8]byte{1}))
		refusals := 0
		for answered := false; !answered || refusals < streams; { // after the answer to the ping, the server has read everything
			frame, err := f.ReadFrame()
			check.Must(t, err, "after", refusals, "refusals")
			switch frame := frame.(type) {
			case *http2.PingFrame:
				answered = answered || frame.IsAck()
			case *http2.MetaHeadersFrame:
				check.Equal(t, statusOf(frame), "16", "status, want UNAUTHENTICATED")
				refusals++
			}
		}
	}
	held := heap() - before
	check.That(t, held <= conns*streams*part/8, "strangers who sent %d bytes make the server hold %d", conns*streams*part, held)
	r.Round(1, 4)
}

// TestCountedBeforeItIsSeen: at any time, the bytes that one end has received were already
// counted as sent by the other. So a round that ends with an arrival has counted its bytes.
func TestCountedBeforeItIsSeen(t *testing.T) {
	for _, name := range []string{"grpc-batch", "grpc-stream:network=tcp"} {
		r := open(t, name, layoutOf(t, 1<<18, 1<<16), 1)
		over := make(chan struct{})
		go func() {
			defer close(over)
			r.Round(0, 40)
		}()
		ends := [2]*phase.Recorder{r.Options.Rec, r.Workers[0].Rec}
		for done := false; !done; {
			select {
			case <-over:
				done = true
			default:
			}
			for i, to := range ends {
				received := to.Counts()[phase.WireReceived]
				sent := ends[1-i].Counts()[phase.WireSent]
				check.Need(t, received <= sent, "%s: %d bytes were received of %d that were sent", name, received, sent)
			}
		}
	}
}

// TestRecordedBeforeCollect: when Collect returns, the server's spans for the update are
// recorded, because the round may end there.
func TestRecordedBeforeCollect(t *testing.T) {
	r := open(t, "grpc-batch", twenty(t), 1)
	for n := range 300 {
		check.Must(t, r.Carry(0, jobOf(0, n)))
		samples, _ := r.Options.Rec.Drain()
		for _, p := range []phase.Phase{phase.Read, phase.Decode, phase.Encode} {
			once := slices.DeleteFunc(slices.Clone(samples), func(s phase.Sample) bool { return s.Phase != p || int(s.Client) != n })
			check.Need(t, len(once) == 1, "job %d: %v was recorded %d times", n, p, len(once))
		}
	}
}

// TestLaneIsTaken: a lane belongs to one worker, which may join again. Another worker is
// refused with the lane's name, even after the first has left.
func TestLaneIsTaken(t *testing.T) {
	r := listen(t, "grpc-batch", twenty(t), 1)
	_, cc := r.stranger()
	join := func(worker uint64) error {
		digest := r.Options.Down.Digest()
		return call(t, cc, "Join", &pb.JoinRequest{Header: r.head(0), ModelDigest: digest, UpdateDigest: digest, Worker: worker})
	}
	check.Must(t, errors.Join(join(7), join(7)))
	refused(t, "another worker", join(8), taken, "lane-0")
	check.Must(t, call(t, cc, "Leave", &pb.LeaveRequest{Header: r.head(0)}))
	refused(t, "another worker after the first has left", join(8), taken, "lane-0")
}
