package http

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
	"ipcbench/transports/driver"
	"ipcbench/transports/endpoint"
	"ipcbench/transports/http/exchange"
	"ipcbench/transports/http/store"
)

// FuzzServer: whatever bytes a connection sends, the server survives, answers in HTTP or
// not at all, and serves other connections.
func FuzzServer(f *testing.F) {
	r := open(f, "http-shm", vectors(f, 2, 100), 1)
	r.Publish(1)
	for _, q := range []string{
		"GET /v1/ping HTTP/1.1\r\nHost: x\r\n\r\n",
		"PUT /v1/tensors/a HTTP/1.1\r\nHost: x\r\nTensor-Dtype: u8\r\nTensor-Shape: 1\r\nContent-Length: 1\r\n\r\nxGET /v1/tensors/a HTTP/1.1\r\nHost: x\r\n\r\n",
		"POST /v1/batch HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\na\nb\n",
		"POST /v1/batch HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 17\r\n\r\n{\"shard_ids\":[]} ",
		"POST /v1/results/0 HTTP/1.1\r\nHost: x\r\nJob-Round: 0\r\nJob-Client: 0\r\nReceipt-Bytes: 0\r\nTable-Bytes: 0\r\nCache-Bytes: 0\r\nCache-Tensors: 0\r\nUpdate-Handle: 00\r\n\r\n",
		"POST /v1/lanes/0?down=1&up=2 HTTP/1.1\r\nHost: x\r\n\r\n",
		"DELETE /v1/lanes/0 HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET /v1/jobs/0 HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET /v1/stats HTTP/1.0\r\n\r\n",
	} {
		f.Add([]byte(q))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c := check.Value(r.Endpoint.Dial(t.Context(), nil))(t)
		defer c.Close()
		waiting.Conn(t, c)
		_, _ = c.Write([]byte(r.admitted(string(b)))) // the server may have closed it
		_ = c.(endpoint.Counted).Conn.(*net.UnixConn).CloseWrite()
		got, _ := io.ReadAll(c)
		check.That(t, len(got) <= 0 || bytes.HasPrefix(got, []byte("HTTP/1.")), "answer %q", got)
		check.That(t, !bytes.Contains(got, []byte(" 500 ")), "internal error: %s", got)
		in := *r.Session
		in.T = t
		(&rig{&in, r.server, r.client}).ask("GET", "/v1/ping", "").Want(204, "", "ping")
	})
}

// FuzzWorker: whatever a server answers, a worker does not crash or hang, and takes only an
// explicit answer as the end of the session.
func FuzzWorker(f *testing.F) {
	l := vectors(f, 2, 100)
	tb := check.Value(store.ManifestOf(l))(f)
	tensors := answer(fmt.Sprintf("Tensor-Count: 2\r\nTable-Bytes: %d\r\n", len(tb.Bytes)), string(tb.Bytes)+strings.Repeat("d", 200))
	f.Add([]byte(answer("", "{}")), []byte(honest[1]), []byte(tensors))
	f.Add([]byte(answer("", `{"models":{"path":"/dev/zero","nonce":"00112233445566778899aabbccddeeff"}}`)), []byte("HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n"), []byte(""))
	f.Add([]byte(answer("", "{}")), []byte("HTTP/1.1 200 OK\r\n\r\n"), []byte(""))
	o := driver.Options{Down: l, Up: l, Lanes: 1, Depth: 1}
	f.Fuzz(func(t *testing.T, joined, job, tensors []byte) {
		client, server := net.Pipe()
		done := make(chan struct{})
		go func() { // sends the answers without reading the requests
			defer close(done)
			go io.Copy(io.Discard, server)
			for _, b := range [][]byte{joined, job, tensors} {
				if _, err := server.Write(b); err != nil {
					return
				}
			}
			server.Close()
		}()
		dialled := exchange.NewClient(func(context.Context) (net.Conn, error) { return client, nil }, "", false, nil)
		w := &worker{o: o, c: config{local: true}, client: dialled, shared: newShared(o, config{}, joinAnswer{}), fetch: store.Fetcher{Client: dialled, Manifest: tb}}
		w.jobs = w.request("jobs", "GET", "jobs/0")
		if w.join(t.Context()) == nil {
			_, p, _, err := w.Receive(t.Context())
			check.That(t, err != nil || p.Layout() == l, "a model of another layout")
			check.That(t, err != io.EOF || bytes.Contains(append(joined, job...), []byte("410")),
				"the session ended without a shutdown")
		}
		check.Must(t, w.Close(nil))
		server.Close()
		<-done
	})
}
