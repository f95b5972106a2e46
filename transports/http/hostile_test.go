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
	"slices"
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
	"ipcbench/transports/http/exchange"
	"ipcbench/transports/http/store"
	"ipcbench/transports/internal/slab"
)

// A1: requests that are wrong in themselves are refused with a status code that
// says how, whoever sends them, and disturb nobody.
func TestBadRequests(t *testing.T) {
	r := open(t, "http-shm", vectors(t, 2, 100), 1)
	r.Publish(1)
	put := func(id, dtype, shape, length, body string) string {
		return "PUT /v1/tensors/" + id + " HTTP/1.1\r\nHost: x\r\nTensor-Dtype: " + dtype + "\r\nTensor-Shape: " + shape +
			"\r\nContent-Length: " + length + "\r\nConnection: close\r\n\r\n" + body
	}
	post := func(path, kind, body string) string {
		return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", path, kind, len(body), body)
	}
	get := func(path string) string { return "GET " + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" }
	result := func(head, body string) string {
		return fmt.Sprintf("POST /v1/results/0 HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n%s\r\n%s", len(body), head, body)
	}
	const resultHead = "Job-Round: 0\r\nJob-Client: 0\r\nReceipt-Bytes: 0\r\nCache-Bytes: 0\r\nCache-Tensors: 0\r\n"
	withTable := resultHead + fmt.Sprintf("Table-Bytes: %d\r\n", len(r.server.manifests.up.Bytes))
	withHandle := resultHead + "Table-Bytes: 0\r\n"
	whole := strings.Repeat("x", len(r.server.manifests.up.Bytes)+200)

	for _, c := range []struct {
		name, request string
		code          int
	}{
		{"id climbs up", put("..%2f..%2fetc%2fpasswd", "u8", "1", "1", "x"), 400},
		{"id has a line break", put("a%0ab", "u8", "1", "1", "x"), 400},
		{"id is not ASCII", put("%c3%a9", "u8", "1", "1", "x"), 400},
		{"id starts with a dot", put(".hidden", "u8", "1", "1", "x"), 400},
		{"id is long", put(strings.Repeat("a", 129), "u8", "1", "1", "x"), 400},
		{"path climbs up", get("/v1/tensors/../../etc/passwd"), 307}, // to /etc/passwd, which is
		{"path outside", get("/etc/passwd"), 404},
		{"get of a bad id", get("/v1/tensors/a%2f..%2fb"), 400},
		{"no dtype", put("a", "", "1", "1", "x"), 400},
		{"dtype with spaces", put("a", "f 32", "1", "4", "xxxx"), 400},
		{"shape of another size", put("a", "f32", "2", "4", "xxxx"), 400},
		{"negative shape", put("a", "f32", "-1", "4", "xxxx"), 400},
		{"shape with a sign", put("a", "u8", "+1", "1", "x"), 400},
		{"shape overflows", put("a", "f32", "4611686018427387904,4611686018427387904", "4", "xxxx"), 400},
		{"number overflows", put("a", "f32", "99999999999999999999", "4", "xxxx"), 400},
		{"too many dimensions", put("a", "u8", strings.Repeat("1,", 32)+"1", "1", "x"), 400},
		{"shape is no list", put("a", "u8", "1,,1", "1", "x"), 400},
		{"unknown dtype, bad shape", put("a", "c64", "-8", "8", "12345678"), 400},
		{"too large", put("a", "u8", "1", "9999999999", "x"), 413},
		{"negative length", put("a", "u8", "1", "-1", "x"), 400},
		{"two lengths", put("a", "u8", "1", "1\r\nContent-Length: 2", "x"), 400},
		{"no length", "PUT /v1/tensors/a HTTP/1.1\r\nHost: x\r\nTensor-Dtype: u8\r\nTensor-Shape: 1\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n1\r\nx\r\n0\r\n\r\n", 411},
		{"length and chunks", "PUT /v1/tensors/a HTTP/1.1\r\nHost: x\r\nTensor-Dtype: u8\r\nContent-Length: 1\r\nTransfer-Encoding: gzip\r\nConnection: close\r\n\r\nx", 501},
		{"head is too large", "GET /v1/ping HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 64<<10) + "\r\n\r\n", 431},
		{"no HTTP", "hello\r\n\r\n", 400},
		{"other version", "GET /v1/ping HTTP/9.9\r\n\r\n", 505},
		{"no host", "GET /v1/ping HTTP/1.1\r\n\r\n", 400},
		{"other method", "PATCH /v1/tensors/a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 405},
		{"batch with a bad id", post("/v1/batch", exchange.TypeText, "a\n../b\n"), 400},
		{"batch with an empty id", post("/v1/batch", exchange.TypeText, "a\n\nb\n"), 400},
		{"huge batch", post("/v1/batch", exchange.TypeText, strings.Repeat("a\n", store.MaxIDs+1)), 400},
		{"huger batch", "POST /v1/batch HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\nConnection: close\r\n\r\n", 413},
		{"batch without length", "POST /v1/batch HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n\r\n", 411},
		{"malformed JSON", post("/v1/batch", exchange.TypeJSON, `{"shard_ids":["a"`), 400},
		{"JSON and more", post("/v1/batch", exchange.TypeJSON, `{"shard_ids":["a"]} {}`), 400},
		{"JSON of other types", post("/v1/batch", exchange.TypeJSON, `{"shard_ids":[1]}`), 400},
		{"JSON with a bad id", post("/v1/clear", exchange.TypeJSON, `{"shard_ids":["../a"]}`), 400},
		{"lane beyond the last", get("/v1/jobs/1"), 404},
		{"negative lane", get("/v1/jobs/-1"), 404},
		{"no lane", get("/v1/jobs/x"), 404},
		{"lane that is taken", get("/v1/jobs/0"), 409},
		{"join of a taken lane", post("/v1/lanes/0?down="+digest(r.Options.Down)+"&up="+digest(r.Options.Up), exchange.TypeText, ""), 409},
		{"join with another model", post("/v1/lanes/0?down=1&up=2", exchange.TypeText, ""), 409},
		{"update without a job", result(withTable, whole), 409},
		{"update without fields", result("", whole), 400},
		{"update with another table", result(resultHead+"Table-Bytes: 1\r\n", whole), 413},
		{"update with half its fields", result("Job-Round: 0\r\n", whole), 400},
		{"update with a negative round", result(strings.Replace(withTable, "Round: 0", "Round: -1", 1), whole), 400},
		{"update that is too short", result(withTable, whole[1:]), 400},
		{"update that is too long", result(withTable, whole+"x"), 413},
		{"receipt that is not there", result(strings.Replace(withTable, "Receipt-Bytes: 0", "Receipt-Bytes: 10", 1), whole), 400},
		{"receipt beyond the limit", result(strings.Replace(withTable, "Receipt-Bytes: 0", "Receipt-Bytes: 99999999999", 1), whole), 400},
		{"handle that is none", result(withHandle+"Update-Handle: xyz\r\n", ""), 400},
		{"handle without a job", result(withHandle+"Update-Handle: "+strings.Repeat("0", 56)+"\r\n", ""), 409},
		{"update in malformed JSON", post("/v1/results/0", exchange.TypeJSON, "{"), 400},
		{"update in JSON without tensors", post("/v1/results/0", exchange.TypeJSON, "{}"), 400},
	} {
		r.say(r.admitted(c.request)).want(t, c.code, "", c.name)
	}
	got := r.server.store.Stats()
	check.That(t, got.Tensors == 0 && got.Bytes == 0, "the store holds %d tensors, %d bytes", got.Tensors, got.Bytes)
	r.carry(0, driver.Job{})
}

// A worker that goes with a job in hand is the end of its lane, whether it has sent
// nothing, half of an update, or one of another size or with other tensors, which is
// refused; and so is one that says why it leaves. Nothing of it is collected.
func TestLostWorkers(t *testing.T) {
	const end = " HTTP/1.1\r\nHost: x\r\n"
	l := vectors(t, 2, 100)
	table, data := tableOf(t, l), strings.Repeat("x", 200)
	upload := func(length int, head, body string) string {
		return fmt.Sprintf("POST /v1/results/0"+end+"Job-Round: 3\r\nJob-Client: 5\r\nCache-Bytes: 0\r\nCache-Tensors: 0\r\nReceipt-Bytes: 0\r\n"+
			"Table-Bytes: %d\r\nContent-Length: %d\r\n%s\r\n%s", len(table), length, head, body)
	}
	whole := len(table) + len(data)
	changed := func(from, to string) string { return upload(whole, "", strings.Replace(table, from, to, 1)+data) }
	const lost = "round 3, client 5: the worker's connection was lost"
	for _, c := range []struct {
		name, request string
		code          int    // of the answer; 0: it is not waited for
		says, cause   string // the answer, and the lane
	}{
		{"silent", "", 0, "", lost},
		{"cut off", upload(whole, "", table+"some of it"), 0, "", "unexpected EOF"},
		{"too short", upload(len(table)+1, "", table+"x"), 400, "body of ", lost + " (the last update was refused: body of "},
		{"too long", upload(whole+1, "", table+data+"x"), 413, "", lost + " (the last update was refused: "},
		{"other dtype", changed("u8", "i8"), 400, "tensor 0 is", "want"},
		{"other shape", changed("[100]", "[101]"), 400, "tensor 0 is", "[101]"},
		{"malformed table", upload(whole, "", strings.Repeat("\xff", whole)), 400, "table: tensor 0: malformed JSON", "malformed JSON"},
		{"JSON without tensors", upload(2, "Content-Type: application/json\r\n", "{}"), 400, "update: ", "update: "},
		{"with a cause", "DELETE /v1/lanes/0?cause=no%20data" + end + "\r\n", 204, "", "round 3, client 5: the worker says: no data"},
	} {
		r := start(t, "http", l, 1)
		r.Publish(1)
		check.Must(t, r.Server.Dispatch(t.Context(), 0, driver.Job{Round: 3, Client: 5}))
		conn := r.conn()
		tell(t, conn, r.admitted("POST /v1/lanes/0?down="+digest(l)+"&up="+digest(l)+end+"\r\n")).want(t, 200, "", c.name)
		tell(t, conn, r.admitted("GET /v1/jobs/0"+end+"\r\n")).want(t, 200, "", c.name)
		if c.code > 0 {
			tell(t, conn, r.admitted(c.request)).want(t, c.code, c.says, c.name)
		} else {
			fmt.Fprint(conn, r.admitted(c.request))
		}
		conn.Close()
		check.Fails(t, check.Err(r.Server.Collect(t.Context(), 0)), c.cause, c.name)
		check.Fails(t, r.Server.Dispatch(t.Context(), 0, driver.Job{}), "lane 0", c.name)
		check.Equal(t, r.server.o.Out.Out(), 0, c.name, "updates that are out:")
	}
}

// An update is taken once, and for the job that is out.
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
	r.carry(0, driver.Job{Round: 4})
}

// Peers that are slow in the middle of something are given up.
func TestSlowPeers(t *testing.T) {
	v := parse(t, "http")
	v.Transport = transport{name: "http", patience: exchange.Patience(100 * time.Millisecond)} // nobody here has to keep to it
	r := startOf(t, v, vectors(t, 1, 3<<20), 1)
	r.Publish(1)
	for what, request := range map[string]string{
		"head":   "GET /v1/ping HTTP/1.1\r\nHost: ",
		"body":   "PUT /v1/tensors/a HTTP/1.1\r\nHost: x\r\nTensor-Dtype: u8\r\nTensor-Shape: 8\r\nContent-Length: 8\r\n\r\nhalf",
		"batch":  "POST /v1/batch HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n\r\nhalf",
		"reader": "GET /v1/tensors/" + r.model() + ".0 HTTP/1.1\r\nHost: x\r\n\r\n", // of more than sockets hold
	} {
		c := r.conn()
		fmt.Fprint(c, r.admitted(request))
		// A byte of an answer, or the end: the server has accepted the connection.
		_, err := c.Read(make([]byte, 1))
		check.That(t, !errors.Is(err, os.ErrDeadlineExceeded), "%s: neither an answer nor the end", what)
		waiting.Until(t, "end of the slow "+what, func() bool { return r.server.listener.Count() == 0 })
		c.Close()
	}
	check.Equal(t, r.server.store.Stats().Bytes, 0, "bytes of the store's room are lost:")
}

// A worker waits for a job, and trains, for as long as it likes: that is not the middle of
// something.
func TestPatientWorkers(t *testing.T) {
	l, all := lies(t)
	r := open(t, "http", l, 1)
	w := r.worker(0)
	w.client.Close() // it gets another server
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		w.client = exchange.NewClient(func(context.Context) (net.Conn, error) { return client, nil }, "", false, defaultPatience, nil)
		w.fetch.Client = w.client
		defer w.client.Close()
		hour := func() { <-waiting.Ending(t, time.Hour).Done() }
		go func() {
			in := bufio.NewReader(server)
			for n, a := range append(all[0].answers[1:], "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n") {
				q, err := http.ReadRequest(in)
				check.OK(t, err)
				check.OK(t, check.Err(io.Copy(io.Discard, q.Body)))
				if n == 0 {
					hour()
				}
				check.OK(t, check.Err(io.WriteString(server, a)))
			}
		}()
		_, _, _, err := w.Receive(t.Context())
		check.Must(t, err)
		hour()
		u, err := w.Reserve()
		check.Must(t, errors.Join(err, w.Submit(t.Context(), u)))
	})
}

// fakeServer answers each request on its only connection with the next of
// answers, and then closes it, or keeps silent if the last one is "silence".
func fakeServer(t *testing.T, answers ...string) (addr string) {
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
			if a == "silence" {
				<-ctx.Done()
				return
			}
			_, _ = io.WriteString(c, a)
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-served
	})
	return "unix:" + path
}

// A lie is what a server answers to join, jobs and batch, and what workers say of it, in Go
// and in Python.
type lie struct {
	name           string
	answers        []string
	inGo, inPython string
}

// lies are those of a server whose model has two tensors.
func lies(t *testing.T) (*tensor.Layout, []lie) {
	t.Helper()
	l := vectors(t, 2, 100)
	table, data := tableOf(t, l), strings.Repeat("d", 200)
	answer := func(head, body string) string {
		return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n%s\r\n%s", len(body), head, body)
	}
	batch := func(count, tableBytes int, body string) string {
		return answer(fmt.Sprintf("Tensor-Count: %d\r\nTable-Bytes: %d\r\n", count, tableBytes), body)
	}
	joined := answer("", "{}")
	job := answer("", `{"round":1,"client":2,"weight":1,"model":"m-1"}`)
	shared := func(h store.Handle) string {
		return answer("", fmt.Sprintf(`{"round":1,"client":2,"weight":1,"model":"m-1","runs":[{"first":0,"count":2,"handle":%q}]}`, h))
	}
	return l, []lie{
		{"good", []string{joined, job, batch(2, len(table), table+data)}, "", "POST /v1/results/0: the server has closed the connection"},
		{"ends at once", nil, "/v1/lanes/0", "POST /v1/lanes/0: "},
		{"no HTTP", []string{"220 smtp.example.org\r\n"}, "malformed HTTP", "POST /v1/lanes/0: the server has closed the connection"},
		{"silent", []string{"silence"}, "timeout", "POST /v1/lanes/0: the server has not gone on for 1 s"},
		{"refuses", []string{"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\nno"}, "503", "503 Service Unavailable"},
		{"join is no JSON", []string{answer("", "x")}, "malformed JSON", "join: b'x' is no JSON"},
		{"ends before the job", []string{joined}, "/v1/jobs/0", "GET /v1/jobs/0: the server has closed the connection"},
		{"half a job", []string{joined, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"}, "unexpected EOF", "GET /v1/jobs/0: the server has closed the connection"},
		{"half a head", []string{joined, "HTTP/1.1 200 OK\r\nContent-"}, "malformed", "GET /v1/jobs/0: the server has closed the connection"},
		{"endless head", []string{joined, "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 1<<20)}, "too long", "head of the answer is too long"},
		{"job without length", []string{joined, "HTTP/1.1 200 OK\r\n\r\n{}"}, "without a length", "without a length"},
		{"chunked job", []string{joined, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"}, "without a length", "without a length"},
		{"huge job", []string{joined, "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n"}, "at most", "at most"},
		{"continue", []string{joined, "HTTP/1.1 100 Continue\r\nContent-Length: 0\r\n\r\n"}, "100", "100 Continue"},
		{"malformed job", []string{joined, answer("", `{"round":"x"}`)}, "malformed JSON", "the answer to a request for a job"},
		{"job and more", []string{joined, answer("", `{"model":"m"}`) + "x", "x"}, "malformed HTTP", "KeyError('round')"},
		{"model is a path", []string{joined, answer("", `{"model":"../m"}`)}, "letters, digits", "a model called '../m'"},
		{"model has a line break", []string{joined, answer("", `{"model":"m\n"}`)}, "letters, digits", "a model called"},
		{"no handle", []string{joined, shared("ab")}, "want 56 hexadecimal digits", "handle 'ab': want 56 hexadecimal digits"},
		{"another handle", []string{joined, shared(store.EncodeHandle(slab.Handle{Offset: 64, Length: 99, Generation: 1}))}, "tensor 0", "tensor 0 (layer0.weight): a handle to 99 bytes, want 100"},
		{"handle of nothing", []string{joined, shared(store.EncodeHandle(slab.Handle{Offset: 64, Length: 100}))}, "tensor 0", "tensor 0 (layer0.weight): a handle"},
		{"unknown tensors", []string{joined, job, strings.Replace(answer("", `{"error":"gone","missing":["m-1.0"]}`), "200 OK", "400 Bad Request", 1)}, "gone", "400 Bad Request: gone: 1 of the tensors"},
		{"no tensors", []string{joined, job, answer("", "")}, "another number of tensors", "has None tensors, want 2"},
		{"one tensor", []string{joined, job, batch(1, len(table)/2, table[:len(table)/2]+data[:100])}, "another number of tensors", "has 1 tensors, want 2"},
		{"other dtype", []string{joined, job, batch(2, len(table), strings.ReplaceAll(table, "u8", "i8")+data)}, "i8", "tensor 0 (layer0.weight) is {'dtype': 'i8'"},
		{"short table", []string{joined, job, batch(2, len(table)/2, table[:len(table)/2]+data)}, "table: tensor 1", "a table of 1 tensors, want 2"},
		{"long table", []string{joined, job, batch(2, 2*len(table), table+table+data)}, "goes on", "a table of 4 tensors, want 2"},
		{"table beyond the body", []string{joined, job, batch(2, 5000, table+data)}, "Table-Bytes", "with a table of '5000'"},
		{"negative table", []string{joined, job, batch(2, -1, table+data)}, "Table-Bytes", "with a table of '-1'"},
		{"a byte less", []string{joined, job, batch(2, len(table), table+data[1:])}, "tensors of 199 bytes", "bytes with a table of"},
		{"a byte more", []string{joined, job, batch(2, len(table), table+data+"d")}, "tensors of 201 bytes", "bytes with a table of"},
		{"half the tensors", []string{joined, job, strings.TrimSuffix(batch(2, len(table), table+data), data[:100])}, "unexpected EOF", "POST /v1/batch: the server has closed the connection"},
		{"silent in the tensors", []string{joined, job, strings.TrimSuffix(batch(2, len(table), table+data), data[:100]), "silence"}, "timeout", "POST /v1/batch: the server has not gone on for 1 s"},
	}
}

// liarsPatience is that of who listens to one that is silent. It is longer than a busy
// machine keeps an honest answer back.
const liarsPatience = time.Second

// patience is that of who listens to l. Who is not silent is not to be given up, however
// slow the machine is.
func (l lie) patience() time.Duration {
	if slices.Contains(l.answers, "silence") {
		return liarsPatience
	}
	return waiting.Limit
}

// A server that lies, is silent or ends in the middle is an error for the worker
// that says what was wrong, and never a hang, wrong bytes, or the end of the
// session.
func TestLyingServers(t *testing.T) {
	l, all := lies(t)
	for _, c := range all {
		waiting.Do(t, c.name, func() {
			v := parse(t, "http")
			v.Transport = transport{name: "http", patience: exchange.Patience(c.patience())}
			w, err := transports.Dial(t.Context(), v, driver.EndpointAt(fakeServer(t, c.answers...), "secret"), 0, driver.Options{Down: l, Up: l, Lanes: 1, Depth: 1})
			if err == nil {
				defer w.Close()
				_, _, err = w.Receive(t.Context())
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
