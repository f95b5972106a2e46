package http

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
	"ipcbench/phase"
	"ipcbench/transports/driver"
	"ipcbench/transports/http/exchange"
	"ipcbench/transports/http/store"
)

// Whoever cannot show the session's secret is refused at every endpoint, before
// a byte of a body is read, and changes nothing.
func TestSecret(t *testing.T) {
	for _, variant := range []string{"http", "http:network=tcp", "http-shm"} {
		r := open(t, variant, vectors(t, 2, 100), 1)
		m := r.publish(1)
		before := r.counts(-1)
		for _, e := range r.s.in.endpoints() {
			method, path, _ := strings.Cut(e.Pattern, " ")
			path = strings.NewReplacer("{id}", "a", "{lane}", "0").Replace(path)
			for what, shown := range map[string]string{
				"nothing":        "",
				"an empty value": "Authorization: \r\n",
				"another secret": "Authorization: Bearer ABCDEFGHIJKLMNOPQRSTUVWXYZ\r\n",
				"most of it":     strings.TrimSuffix(r.secret(), "\r\n")[:len(r.secret())-3] + "\r\n",
				"more than it":   strings.TrimSuffix(r.secret(), "\r\n") + "A\r\n",
				"another scheme": strings.Replace(r.secret(), "Bearer", "Basic", 1),
			} {
				c := r.raw()
				// The body never comes: a server that waited for it would not answer.
				fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: x\r\n%sContent-Length: 1000000\r\n\r\n", method, path, shown)
				a, err := http.ReadResponse(bufio.NewReader(c), nil)
				check.That(t, err == nil && a.StatusCode == http.StatusUnauthorized && a.Close,
					"%s: %s with %s: got %v, %v, want 401 and the end of the connection", variant, e.Pattern, what, a, err)
				c.Close()
			}
		}
		for name, n := range r.counts(-1) {
			check.That(t, !strings.HasPrefix(name, phase.Served) || n == before[name],
				"%s: %s is %d, was %d: a stranger was served", variant, name, n, before[name])
		}
		r.exchange(0, driver.Job{}, m)
	}
}

// A connection that is not the worker's delivers no update, and kills no lane,
// even if it knows the secret.
func TestOtherConnections(t *testing.T) {
	for _, variant := range []string{"http:network=tcp", "http", "http-shm"} {
		r := open(t, variant, vectors(t, 1, 8), 1)
		m := r.publish(1)
		w, j := r.workers[0], driver.Job{Round: 3, Client: 5}
		check.Must(t, r.s.Dispatch(t.Context(), 0, j))
		table := r.s.in.manifests.up.Bytes
		head := []string{fieldRound, "3", fieldClient, "5", fieldReceipt, "0", fieldCache, "0", fieldCached, "0", store.FieldTable, fmt.Sprint(len(table))}
		for what, body := range map[string][]byte{
			"whole":  append(bytes.Clone(table), pattern(9, 8)...),
			"broken": bytes.Repeat([]byte{0xff}, len(table)+8),
		} {
			if a := r.ask(r.client(), "POST", "/v1/results/0", body, head...); a.code != http.StatusConflict {
				t.Errorf("%s: %s update of another connection: got %d %s, want 409", variant, what, a.code, a.body)
			}
		}
		json := []string{fieldRound, "3", fieldClient, "5", fieldCache, "0", fieldCached, "0", "Content-Type", exchange.TypeJSON}
		if a := r.ask(r.client(), "POST", "/v1/results/0", []byte("{}"), json...); a.code != http.StatusConflict {
			t.Errorf("%s: update in JSON of another connection: got %d %s, want 409", variant, a.code, a.body)
		}
		done := make(chan error, 1)
		go func() { done <- train(t.Context(), w) }()
		p, err := r.s.Collect(t.Context(), 0)
		check.Must(t, errors.Join(err, <-done))
		p.Release()
		r.exchange(0, driver.Job{Round: 4}, m)
	}
}

// An update in JSON that the lane does not wait for is refused before its body
// is there.
func TestJSONIsRefusedFirst(t *testing.T) {
	r := open(t, "http:body=json", vectors(t, 1, 8), 1)
	m := r.publish(1)
	check.Must(t, r.s.Dispatch(t.Context(), 0, driver.Job{Round: 3, Client: 5}))
	for head, code := range map[string]int{
		"": 400,
		"Job-Round: 3\r\nCache-Bytes: 0\r\nCache-Tensors: 0\r\n":                  400,
		"Job-Round: 3\r\nJob-Client: 6\r\nCache-Bytes: 0\r\nCache-Tensors: 0\r\n": 409,
		"Job-Round: 2\r\nJob-Client: 5\r\nCache-Bytes: 0\r\nCache-Tensors: 0\r\n": 409,
	} {
		c := r.raw()
		fmt.Fprintf(c, "POST /v1/results/0 HTTP/1.1\r\nHost: x\r\n%sContent-Type: %s\r\n%sContent-Length: 1000000\r\n\r\n", r.secret(), exchange.TypeJSON, head)
		a, err := http.ReadResponse(bufio.NewReader(c), nil)
		check.That(t, err == nil && a.StatusCode == code, "%q: got %v, %v, want %d", head, a, err, code)
		c.Close()
	}
	done := make(chan error, 1)
	go func() { done <- train(t.Context(), r.workers[0]) }()
	p, err := r.s.Collect(t.Context(), 0)
	check.Must(t, errors.Join(err, <-done))
	p.Release()
	r.exchange(0, driver.Job{Round: 4}, m)
}

// A thousand connections on which nothing is said lock nobody out, neither a
// worker that keeps its connection nor one that makes a new one for every
// request, and no user of the store; and the server keeps few of them.
func TestIdleConnections(t *testing.T) {
	for _, variant := range []string{"http", "http:network=tcp", "http:conn=per-request", "http:conn=per-request:network=tcp", "http-shm:network=tcp"} {
		t.Run(variant, func(t *testing.T) {
			r := open(t, variant, vectors(t, 3, 1000), 2)
			most := 256 + 4*2 + 2 + 1 // strangers, workers, and the client below
			user := r.client()
			for round := range 2 {
				var idle []net.Conn
				dialled := make(chan error, 1)
				go func() {
					for range 1000 {
						c, err := r.e.Dial(t.Context(), nil)
						if err != nil {
							dialled <- err
							return
						}
						idle = append(idle, c)
					}
					dialled <- nil
				}()
				m := r.publish(uint64(round))
				for i, waits := 0, true; waits || i%8 > 0; i++ { // while they come, and then while they are there
					r.exchange(i%2, driver.Job{Round: round, Client: i}, m)
					select {
					case err := <-dialled:
						check.Must(t, err)
						waits = false
					default:
					}
				}
				a := r.ask(user, "GET", "/v1/ping", nil)
				check.That(t, a.code == 204, "ping: got %d", a.code)
				n := r.s.in.listener.Count()
				check.That(t, n <= most, "%d connections are open, want %d at most", n, most)
				first := idle[0] // evicted: it sees its end, and does not hang
				waiting.Conn(t, first)
				if _, err := first.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("the oldest idle connection: got %v, want its end", err)
				}
				for _, c := range idle {
					c.Close()
				}
			}
		})
	}
}

// A connection on which nothing is said, or not the secret, ends by itself.
func TestStrangersAreTimed(t *testing.T) {
	r := start(t, "http", vectors(t, 1, 10), 1, brief(50*time.Millisecond))
	o := r.o
	o.Rec = phase.NewRecorder(1 << 10)
	for r.workers == nil { // on a slow machine its time may be up before it has joined
		if w, err := dialLane(t.Context(), r.v, r.e, 0, o); err == nil {
			r.workers = append(r.workers, w)
		} else {
			t.Log(err)
		}
	}
	for what, said := range map[string]string{
		"silence": "", "half a head": "GET /v1/ping HTTP/1.1\r\nHost", "no secret": "GET /v1/ping HTTP/1.1\r\nHost: x\r\n\r\n",
		"half a body": "PUT /v1/tensors/a HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf",
	} {
		c := r.raw()
		_, err := io.WriteString(c, said)
		check.Must(t, err)
		if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: the connection does not end", what)
		}
	}
	waiting.Until(t, "the end of all strangers", func() bool { return r.s.in.listener.Count() == 1 })
	r.exchange(0, driver.Job{}, r.publish(1))
}

// A server that cannot accept connections any more says so where its caller
// waits.
func TestAcceptFails(t *testing.T) {
	for _, variant := range []string{"http", "http-shm"} {
		r := open(t, variant, vectors(t, 1, 10), 1)
		r.publish(1)
		check.Must(t, r.s.Dispatch(t.Context(), 0, driver.Job{}))
		check.Must(t, r.s.in.listener.Listener.Close())
		waiting.Do(t, "collect", func() {
			_, err := r.s.Collect(t.Context(), 0)
			wantError(t, "collect", err, variant+": lane 0: collect: round 0, client 0: no connection can be accepted any more: accept")
		})
		wantError(t, "dispatch", r.s.Dispatch(t.Context(), 0, driver.Job{}), "can be accepted any more")
	}
}
