package http

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
	"ipcbench/tensor"
	"ipcbench/transports"
	"ipcbench/transports/driver"
	"ipcbench/transports/driver/drivertest"
	"ipcbench/transports/endpoint"
	"ipcbench/transports/http/exchange"
	"ipcbench/transports/http/store"
	"ipcbench/transports/internal/slab"
)

// TestBadRequests: A1: an invalid request from any peer is refused with a status code for
// its fault, and disturbs no other.
func TestBadRequests(t *testing.T) {
	r := open(t, "http-shm", vectors(t, 2, 100), 1)
	r.Publish(1)
	const (
		put, one = "PUT /v1/tensors/", "\nTensor-Dtype: u8\nTensor-Shape: 1"
		typed    = put + "a\nTensor-Dtype: "
		batch    = "POST /v1/batch\nContent-Type: "
		result   = "POST /v1/results/0\n"
		fields   = result + "Job-Round: 0\nJob-Client: 0\nCache-Bytes: 0\nCache-Tensors: 0\n"
		handle   = fields + "Receipt-Bytes: 0\nTable-Bytes: 0\nUpdate-Handle: "
	)
	table := fmt.Sprintf("Table-Bytes: %d\n", len(r.server.manifests.up.Bytes))
	update, whole := fields+"Receipt-Bytes: 0\n"+table, "\n"+strings.Repeat("x", len(r.server.manifests.up.Bytes)+200)
	for _, c := range []struct {
		name, request string
		code          int
	}{
		{"id climbs up", put + "..%2f..%2fetc%2fpasswd" + one + "\n\nx", 400},
		{"id has a line break", put + "a%0ab" + one + "\n\nx", 400},
		{"id is not ASCII", put + "%c3%a9" + one + "\n\nx", 400},
		{"id starts with a dot", put + ".hidden" + one + "\n\nx", 400},
		{"id is long", put + strings.Repeat("a", 129) + one + "\n\nx", 400},
		{"path climbs up", "GET /v1/tensors/../../etc/passwd", 307}, // to /etc/passwd, which the next case requests
		{"path outside", "GET /etc/passwd", 404},
		{"get of a bad id", "GET /v1/tensors/a%2f..%2fb", 400},
		{"no dtype", typed + "\nTensor-Shape: 1\n\nx", 400},
		{"dtype with spaces", typed + "f 32\nTensor-Shape: 1\n\nxxxx", 400},
		{"shape of another size", typed + "f32\nTensor-Shape: 2\n\nxxxx", 400},
		{"negative shape", typed + "f32\nTensor-Shape: -1\n\nxxxx", 400},
		{"shape with a sign", typed + "u8\nTensor-Shape: +1\n\nx", 400},
		{"shape overflows", typed + "f32\nTensor-Shape: 4611686018427387904,4611686018427387904\n\nxxxx", 400},
		{"number overflows", typed + "f32\nTensor-Shape: 99999999999999999999\n\nxxxx", 400},
		{"too many dimensions", typed + "u8\nTensor-Shape: " + strings.Repeat("1,", 32) + "1\n\nx", 400},
		{"shape is no list", typed + "u8\nTensor-Shape: 1,,1\n\nx", 400},
		{"unknown dtype, bad shape", typed + "c64\nTensor-Shape: -8\n\n12345678", 400},
		{"too large", put + "a" + one + "\nContent-Length: 9999999999\n\nx", 413},
		{"negative length", put + "a" + one + "\nContent-Length: -1\n\nx", 400},
		{"two lengths", put + "a" + one + "\nContent-Length: 1\nContent-Length: 2\n\nx", 400},
		{"no length", put + "a" + one + "\nTransfer-Encoding: chunked\n\n1\r\nx\r\n0\r\n\r\n", 411},
		{"length and coding", put + "a" + one + "\nContent-Length: 1\nTransfer-Encoding: gzip\n\nx", 501},
		{"head is too large", "GET /v1/ping\nX: " + strings.Repeat("x", 64<<10), 431},
		{"no HTTP", "hello\r\n\r\n", 400},
		{"other version", "GET /v1/ping HTTP/9.9\r\n\r\n", 505},
		{"no host", "GET /v1/ping HTTP/1.1\r\n\r\n", 400},
		{"batch with a bad id", batch + "text/plain\n\na\n../b\n", 400},
		{"batch with an empty id", batch + "text/plain\n\na\n\nb\n", 400},
		{"huge batch", batch + "text/plain\n\n" + strings.Repeat("a\n", store.MaxIDs+1), 400},
		{"huger batch", batch + "text/plain\nContent-Length: 99999999", 413},
		{"batch without length", batch + "text/plain\nTransfer-Encoding: chunked\n\n0\r\n\r\n", 411},
		{"malformed JSON", batch + "application/json\n\n{\"shard_ids\":[\"a\"", 400},
		{"JSON and more", batch + "application/json\n\n{\"shard_ids\":[\"a\"]} {}", 400},
		{"JSON of other types", batch + "application/json\n\n{\"shard_ids\":[1]}", 400},
		{"JSON with a bad id", "POST /v1/clear\nContent-Type: application/json\n\n{\"shard_ids\":[\"../a\"]}", 400},
		{"lane beyond the last", "GET /v1/jobs/1", 404},
		{"negative lane", "GET /v1/jobs/-1", 404},
		{"no lane", "GET /v1/jobs/x", 404},
		{"lane that is taken", "GET /v1/jobs/0", 409},
		{"join of a taken lane", joining(r.Options.Down), 409},
		{"join with another model", "POST /v1/lanes/0?down=1&up=2", 409},
		{"update without a job", update + whole, 409},
		{"update without fields", result + whole, 400},
		{"update with another table", fields + "Receipt-Bytes: 0\nTable-Bytes: 1\n" + whole, 413},
		{"update with half its fields", result + "Job-Round: 0\n" + whole, 400},
		{"update with a negative round", strings.Replace(update, "Round: 0", "Round: -1", 1) + whole, 400},
		{"update that is too short", update + whole[:len(whole)-1], 400},
		{"update that is too long", update + whole + "x", 413},
		{"receipt that is not there", fields + "Receipt-Bytes: 10\n" + table + whole, 400},
		{"receipt beyond the limit", fields + "Receipt-Bytes: 99999999999\n" + table + whole, 400},
		{"handle that is none", handle + "xyz", 400},
		{"handle without a job", handle + strings.Repeat("0", 56), 409},
		{"JSON without fields", result + "Content-Type: application/json\n\n{}", 400},
	} {
		r.try(c.request).Want(c.code, "", c.name)
	}
	got := r.server.store.Stats()
	check.That(t, got.Tensors == 0 && got.Bytes == 0, "the store holds %d tensors, %d bytes", got.Tensors, got.Bytes)
	r.Prove(0, driver.Job{})
}

// TestLostWorkers: if a worker disconnects during a job, its lane ends, and no update is
// collected. It may have sent nothing, half an update, a refused update, or a cause.
func TestLostWorkers(t *testing.T) {
	l := vectors(t, 2, 100)
	const fields = "POST /v1/results/0\nJob-Round: 3\nJob-Client: 5\nCache-Bytes: 0\nCache-Tensors: 0\nReceipt-Bytes: 0\n"
	table, data := tableOf(t, l), strings.Repeat("x", 200)
	upload := fields + fmt.Sprintf("Table-Bytes: %d\n", len(table))
	const lost = "round 3, client 5: the worker's connection was lost"
	for _, c := range []struct {
		name, request string
		code          int    // of the answer; 0 if the test does not wait
		says, cause   string // expected in the answer, and in the lane's error
	}{
		{"silent", "", 0, "", lost},
		{"cut off", upload + fmt.Sprintf("Content-Length: %d\n\n", len(table)+200) + table + "some of it", 0, "", "unexpected EOF"},
		{"too short", upload + "\n" + table + "x", 400, "body of ", lost + " (the last update was refused: body of "},
		{"too long", upload + "\n" + table + data + "x", 413, "", lost + " (the last update was refused: "},
		{"other dtype", upload + "\n" + strings.Replace(table, "u8", "i8", 1) + data, 400, "tensor 0 is", "must be"},
		{"other shape", upload + "\n" + strings.Replace(table, "[100]", "[101]", 1) + data, 400, "tensor 0 is", "[101]"},
		{"malformed table", upload + "\n" + strings.Repeat("\xff", len(table)+200), 400, "table: tensor 0: malformed JSON", "malformed JSON"},
		{"JSON without tensors", fields + "Content-Type: application/json\n\n{}", 400, "update: ", "update: "},
		{"with a cause", "DELETE /v1/lanes/0?cause=no%20data", 204, "", "round 3, client 5: the worker reports: no data"},
	} {
		r := start(t, "http", l, 1)
		r.Publish(1)
		check.Must(t, r.Server.Dispatch(t.Context(), 0, driver.Job{Round: 3, Client: 5}))
		conn := r.conn()
		tell(t, conn, r.admitted(joining(l))).Want(200, "", c.name)
		tell(t, conn, r.admitted("GET /v1/jobs/0")).Want(200, "", c.name)
		if c.code > 0 {
			tell(t, conn, r.admitted(c.request)).Want(c.code, c.says, c.name)
		} else if c.request != "" {
			fmt.Fprint(conn, r.admitted(c.request))
		}
		conn.Close()
		check.Fails(t, check.Err(r.Server.Collect(t.Context(), 0)), c.cause, c.name)
		check.Fails(t, r.Server.Dispatch(t.Context(), 0, driver.Job{}), "lane 0", c.name)
		check.Equal(t, r.server.o.Out.Out(), 0, c.name, "updates that are out:")
	}
}

// TestUploadsAreForTheJobThatIsOut: an update is accepted once, and only for the job that
// is out.
func TestUploadsAreForTheJobThatIsOut(t *testing.T) {
	r := open(t, "http", vectors(t, 2, 100), 1)
	r.Publish(1)
	w := r.worker(0)
	refused := func(u *tensor.Package) {
		t.Helper()
		q := check.Value(w.upload(u))(t)
		check.Fails(t, w.client.Do(t.Context(), q, nil), "no such job")
	}
	check.Must(t, r.Server.Dispatch(t.Context(), 0, driver.Job{Round: 3, Client: 5}))
	var sent *tensor.Package
	check.Must(t, drivertest.Turn(t.Context(), r.Workers[0].Worker, func(j driver.Job, model, u *tensor.Package) error {
		for _, other := range []driver.Job{{Round: 2, Client: 5}, {Round: 3, Client: 6}} {
			w.job = other.ID(0)
			refused(u)
		}
		_, _, err := r.server.Collect(waiting.Ending(t, time.Millisecond), 0)
		check.Fails(t, err, "(the last update was refused: lane 0: round 3, client 6: no such job")
		w.job, sent = j.ID(0), u
		return drivertest.Stock(j, model, u)
	}))
	refused(sent)
	p := check.Value(r.Server.Collect(t.Context(), 0))(t)
	p.Release()
	refused(sent)
	r.Prove(0, driver.Job{Round: 4})
}

// TestSlowPeers: the server disconnects a peer that is slow in the middle of a head. It waits
// for one that is slow in the middle of a body until the session ends.
func TestSlowPeers(t *testing.T) {
	v := parse(t, "http")
	v.Subject = transport{name: "http", headLimit: 100 * time.Millisecond} // no head in this test is meant to be fast enough
	r := startOf(t, v, vectors(t, 1, 3<<20), 1)
	r.Publish(1)
	send := func(request string) net.Conn {
		c := r.conn()
		fmt.Fprint(c, r.admitted(request))
		return c
	}
	ends := func(what string, c net.Conn) {
		_, err := io.Copy(io.Discard, c)
		check.That(t, !errors.Is(err, os.ErrDeadlineExceeded), "%s: the connection does not end", what)
	}
	ends("head", send("GET /v1/ping HTTP/1.1\r\nHost: x\r\n\r\nGET /v1/ping HTTP/1.1\r\nHost: ")) // a request without the secret would be a stranger's
	slow := map[string]net.Conn{
		"body":   send("PUT /v1/tensors/a\nTensor-Dtype: u8\nTensor-Shape: 8\nContent-Length: 8\n\nhalf"),
		"batch":  send("POST /v1/batch\nContent-Length: 8\n\nhalf"),
		"reader": send("GET /v1/tensors/" + r.model() + ".0"), // larger than the socket buffers
	}
	served := func() (n int64) {
		all := r.server.handler.Served()
		return all["put"] + all["batch"] + all["get"]
	}
	waiting.Until(t, "requests of slow peers", func() bool { return served() == int64(len(slow)) })
	check.Must(t, r.Server.Shutdown(t.Context()))
	for what, c := range slow {
		ends(what, c)
	}
	check.Equal(t, r.server.listener.Count(), 0, "open connections")
}

// TestPatientWorkers: a worker may wait for a job, and train, without a time limit.
func TestPatientWorkers(t *testing.T) {
	l, all := lies(t)
	r := open(t, "http", l, 1)
	w := r.worker(0)
	w.client.Close()
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		w.client = exchange.NewClient(func(context.Context) (net.Conn, error) { return client, nil }, "", false, nil)
		w.fetch.Client = w.client
		defer w.client.Close()
		hour := func() { <-waiting.Ending(t, time.Hour).Done() }
		go func() {
			in := bufio.NewReader(server)
			for n, a := range append(all[0].answers()[1:], "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n") {
				q, err := http.ReadRequest(in)
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, q.Body)
				if n == 0 {
					hour()
				}
				_, _ = io.WriteString(server, a)
			}
		}()
		_, _, _, err := w.Receive(t.Context())
		check.Must(t, err)
		hour()
		u, err := w.Reserve()
		check.Must(t, errors.Join(err, w.Submit(t.Context(), u)))
	})
}

// fakeServer answers each request on its only connection with the next of answers. Then it
// closes the connection, or stays silent if the last answer ends with silence.
func fakeServer(t *testing.T, answers []string) (addr string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l := check.Value(net.Listen("unix", path))(t)
	served := make(chan struct{})
	ctx := t.Context()
	go func() {
		defer close(served)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		in := bufio.NewReader(c)
		for _, a := range answers {
			q, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, q.Body)
			text, silent := strings.CutSuffix(a, silence)
			_, _ = io.WriteString(c, text)
			if silent {
				<-ctx.Done()
			}
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-served
	})
	return "unix:" + path
}

const silence = "silence"

// A lie is a wrong answer, sent after honest answers to join and jobs, with the expected
// errors of workers in Go and in Python. A worker in Python waits for a silent server until its
// process ends.
type lie struct {
	name           string
	honest         int // number of honest answers before it
	last           string
	inGo, inPython string
}

func answer(head, body string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n%s\r\n%s", len(body), head, body)
}

var honest = []string{answer("", "{}"), answer("", `{"round":1,"client":2,"weight":1,"model":"m-1"}`)}

func (l lie) answers() []string { return append(honest[:l.honest:l.honest], l.last) }

// lies returns a layout of two tensors and lies about such a model.
func lies(t *testing.T) (*tensor.Layout, []lie) {
	t.Helper()
	l := vectors(t, 2, 100)
	table, data := tableOf(t, l), strings.Repeat("d", 200)
	batch := func(count, tableBytes int, body string) string {
		return answer(fmt.Sprintf("Tensor-Count: %d\r\nTable-Bytes: %d\r\n", count, tableBytes), body)
	}
	half := strings.TrimSuffix(batch(2, len(table), table+data), data[:100])
	shared := func(h slab.Handle) string {
		return answer("", fmt.Sprintf(`{"round":1,"client":2,"weight":1,"model":"m-1","runs":[{"first":0,"count":2,"handle":%q}]}`, store.EncodeHandle(h)))
	}
	return l, []lie{
		{"good", 2, batch(2, len(table), table+data), "", "POST /v1/results/0: the server has closed the connection"},
		{"ends at once", 0, "", "/v1/lanes/0", "POST /v1/lanes/0: "},
		{"no HTTP", 0, "220 smtp.example.org\r\n", "malformed HTTP", "POST /v1/lanes/0: the server has closed the connection"},
		{"silent", 0, silence, "deadline exceeded", ""},
		{"refuses", 0, "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\nno", "503", "503 Service Unavailable"},
		{"join is no JSON", 0, answer("", "x"), "malformed JSON", "join: b'x' is not a JSON dict"},
		{"ends before the job", 1, "", "/v1/jobs/0", "GET /v1/jobs/0: the server has closed the connection"},
		{"half a job", 1, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", "unexpected EOF", "GET /v1/jobs/0: the server has closed the connection"},
		{"half a head", 1, "HTTP/1.1 200 OK\r\nContent-", "malformed", "GET /v1/jobs/0: the server has closed the connection"},
		{"endless head", 1, "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 1<<20), "too long", "head of the answer is too long"},
		{"job without length", 1, "HTTP/1.1 200 OK\r\n\r\n{}", "without a length", "without a length"},
		{"chunked job", 1, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "without a length", "without a length"},
		{"huge job", 1, "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", "at most", "at most"},
		{"continue", 1, "HTTP/1.1 100 Continue\r\nContent-Length: 0\r\n\r\n", "100", "100 Continue"},
		{"malformed job", 1, answer("", `{"round":"x"}`), "malformed JSON", "the answer to a request for a job"},
		{"job and more", 1, answer("", `{"model":"m"}`) + "x\r\n", "malformed HTTP", "KeyError('round')"},
		{"model is a path", 1, answer("", `{"model":"../m"}`), "letters, digits", "invalid model name '../m'"},
		{"model has a line break", 1, answer("", `{"model":"m\n"}`), "letters, digits", "invalid model name"},
		{"no handle", 1, answer("", `{"model":"m-1","round":1,"client":2,"weight":1,"runs":[{"first":0,"count":2,"handle":"ab"}]}`), "must be 56 hexadecimal digits", "handle 'ab': must be 56 hexadecimal digits"},
		{"another handle", 1, shared(slab.Handle{Offset: 64, Length: 99, Generation: 1}), "tensor 0", "tensor 0 (layer0.weight): a handle to 99 bytes, must be 100"},
		{"handle of nothing", 1, shared(slab.Handle{Offset: 64, Length: 100}), "tensor 0", "tensor 0 (layer0.weight): a handle"},
		{"unknown tensors", 2, strings.Replace(answer("", `{"error":"gone","missing":["m-1.0"]}`), "200 OK", "400 Bad Request", 1), "gone", "400 Bad Request: gone: 1 of the tensors"},
		{"no tensors", 2, answer("", ""), "wrong number of tensors", "has None tensors, must be 2"},
		{"one tensor", 2, batch(1, len(table)/2, table[:len(table)/2]+data[:100]), "wrong number of tensors", "has 1 tensors, must be 2"},
		{"other dtype", 2, batch(2, len(table), strings.ReplaceAll(table, "u8", "i8")+data), "i8", "tensor 0 (layer0.weight) is {'dtype': 'i8'"},
		{"short table", 2, batch(2, len(table)/2, table[:len(table)/2]+data), "table: tensor 1", "a table of 1 tensors, must be 2"},
		{"long table", 2, batch(2, 2*len(table), table+table+data), "continues after", "a table of 4 tensors, must be 2"},
		{"table beyond the body", 2, batch(2, 5000, table+data), "Table-Bytes", "with a table of '5000'"},
		{"negative table", 2, batch(2, -1, table+data), "Table-Bytes", "with a table of '-1'"},
		{"a byte less", 2, batch(2, len(table), table+data[1:]), "tensors have 199 bytes", "bytes with a table of"},
		{"a byte more", 2, batch(2, len(table), table+data+"d"), "tensors have 201 bytes", "bytes with a table of"},
		{"half the tensors", 2, half, "unexpected EOF", "POST /v1/batch: the server has closed the connection"},
		{"silent in the tensors", 2, half + silence, "deadline exceeded", ""},
	}
}

// silent reports whether the server neither answers nor disconnects.
func (l lie) silent() bool { return strings.HasSuffix(l.last, silence) }

// TestLyingServers: if a server sends a wrong answer, is silent or disconnects, the
// worker's error says so. It does not hang beyond its context, accept wrong bytes, or end as after a shutdown.
func TestLyingServers(t *testing.T) {
	l, all := lies(t)
	for _, c := range all {
		waiting.Do(t, c.name, func() {
			v, ctx := parse(t, "http"), t.Context()
			if c.silent() {
				ctx = waiting.Ending(t, time.Second)
			}
			w, err := transports.Dial(ctx, v, endpoint.At(fakeServer(t, c.answers()), "secret"), 0, driver.Options{Down: l, Up: l, Lanes: 1, Depth: 1})
			if err == nil {
				defer w.Close()
				_, _, err = w.Receive(ctx)
			}
			if c.inGo == "" {
				check.Must(t, err)
				return
			}
			check.Fails(t, err, c.inGo, c.name)
			check.That(t, !errors.Is(err, io.EOF), "%s: the session has ended", c.name)
		})
	}
}
