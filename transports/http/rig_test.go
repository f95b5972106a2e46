package http

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/reply"
	"ipcbench/internal/test/waiting"
	"ipcbench/tensor"
	"ipcbench/transports"
	"ipcbench/transports/driver"
	"ipcbench/transports/driver/drivertest"
	"ipcbench/transports/http/exchange"
	"ipcbench/transports/http/store"
	"ipcbench/transports/internal/slab"
)

// A rig is a session with an HTTP client for its server.
type rig struct {
	*drivertest.Session
	server *server
	client *http.Client
}

func parse(t testing.TB, variant string) transports.Variant {
	t.Helper()
	return drivertest.Parse(t, variant, New(), Local())
}

// start opens a session of a variant, such as "http:batch=2", without workers.
func start(t testing.TB, variant string, l *tensor.Layout, lanes int) *rig {
	t.Helper()
	return startOf(t, parse(t, variant), l, lanes)
}

func startOf(t testing.TB, v transports.Variant, l *tensor.Layout, lanes int) *rig {
	t.Helper()
	s := drivertest.Listen(t, v, driver.Options{Down: l, Up: l, Lanes: lanes})
	d := s.Driver
	if c, ok := d.(*slab.CloningServer); ok {
		d = c.Server
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return s.Endpoint.Dial(ctx, nil) }}
	t.Cleanup(transport.CloseIdleConnections)
	return &rig{s, d.(*server), &http.Client{Transport: transport, Timeout: waiting.Limit}}
}

// open is start with a worker for every lane.
func open(t testing.TB, variant string, l *tensor.Layout, lanes int) *rig {
	t.Helper()
	r := start(t, variant, l, lanes)
	for n := range lanes {
		r.Dial(n)
	}
	return r
}

// worker returns the driver of Workers[n].
func (r *rig) worker(n int) *worker { return r.Workers[n].Driver.(*worker) }

type counts = map[string]int64

// counted checks counters of the server, and of all workers together. It ignores counters
// that are not in the arguments.
func (r *rig) counted(server, workers counts) {
	r.T.Helper()
	s, w := r.Counts()
	counted(r.T, "server", s, server)
	counted(r.T, "workers", w, workers)
}

func counted(t testing.TB, who string, got, want counts) {
	t.Helper()
	for name, n := range want {
		check.Equal(t, got[name], n, who, name)
	}
}

// ask makes one request. head lists the names and values of header fields in turn.
func (r *rig) ask(method, path, body string, head ...string) reply.Reply {
	r.T.Helper()
	head = append(head, "Authorization", r.Endpoint.Authorization())
	return reply.To(r.T.Context(), r.T, r.client, method, "http://ipcbench"+path, body, head...)
}

// put stores a tensor of bytes.
func (r *rig) put(id, data string) reply.Reply {
	r.T.Helper()
	return r.ask("PUT", "/v1/tensors/"+id, data, store.FieldDType, "u8", store.FieldShape, strconv.Itoa(len(data)))
}

// conn opens a connection to the server, for requests that no HTTP client makes.
func (r *rig) conn() net.Conn {
	r.T.Helper()
	c := check.Value(r.Endpoint.Dial(r.T.Context(), nil))(r.T)
	waiting.Conn(r.T, c)
	r.T.Cleanup(func() { c.Close() })
	return c
}

// tell sends a request unchanged on c. The server may answer before it has read all of it.
func tell(t testing.TB, c net.Conn, request string) reply.Reply {
	t.Helper()
	go io.WriteString(c, request) // ends with the connection
	a, err := http.ReadResponse(bufio.NewReader(c), nil)
	return reply.Of(t, a, err)
}

// say is tell on a new connection.
func (r *rig) say(request string) reply.Reply {
	r.T.Helper()
	c := r.conn()
	defer c.Close()
	return tell(r.T, c, request)
}

// try is say with a request in the short form of admitted.
func (r *rig) try(lines string) reply.Reply {
	r.T.Helper()
	return r.say(r.admitted(lines))
}

// secret returns the header field that every request needs.
func (r *rig) secret() string { return "Authorization: " + r.Endpoint.Authorization() + "\r\n" }

// admitted returns a request with the session's secret inserted after its first line. A
// request without "HTTP" in it is in short form: method and path, header fields, an empty
// line and the body, in lines. Its Content-Length is added unless it is there.
func (r *rig) admitted(lines string) string {
	if !strings.Contains(lines, "HTTP") {
		head, body, _ := strings.Cut(lines, "\n\n")
		first, fields, _ := strings.Cut(strings.TrimSuffix(head, "\n")+"\n", "\n")
		if !strings.Contains(fields, "Content-Length: ") && !strings.Contains(fields, "Transfer-Encoding: ") {
			fields += fmt.Sprintf("Content-Length: %d\n", len(body))
		}
		lines = strings.ReplaceAll(first+" HTTP/1.1\nHost: x\n"+fields+"\n", "\n", "\r\n") + body
	}
	return strings.Replace(lines, "\r\n", "\r\n"+r.secret(), 1)
}

// joining returns the request of a worker that joins lane 0.
func joining(l *tensor.Layout) string {
	return "POST /v1/lanes/0?down=" + digest(l) + "&up=" + digest(l)
}

// requests returns the beginning of a request to each endpoint, and to a missing one, by
// pattern. The announced body never comes, so a server that waited for it would not answer.
func (r *rig) requests(lane string) map[string]string {
	all := map[string]string{}
	for _, e := range append(r.server.endpoints(), exchange.Endpoint{Pattern: "GET /nowhere"}) {
		all[e.Pattern] = strings.NewReplacer("{id}", "a", "{lane}", lane).Replace(e.Pattern) + " HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n"
	}
	return all
}

// model returns the name of the published model.
func (r *rig) model() string {
	both := r.server.models.Memories()
	first, second := r.server.models.Published(both[0].p), r.server.models.Published(both[1].p)
	if first.Serial > second.Serial {
		return r.server.name(first)
	}
	return r.server.name(second)
}

// vectors returns a layout of n tensors of size bytes each.
func vectors(t testing.TB, n, size int) *tensor.Layout {
	t.Helper()
	return drivertest.Vectors(t, tensor.U8, slices.Repeat([]int{size}, n)...)
}

// tableOf returns the manifest of a layout.
func tableOf(t testing.TB, l *tensor.Layout) string {
	t.Helper()
	m := check.Value(store.ManifestOf(l))(t)
	return string(bytes.Clone(m.Bytes))
}
