package http

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
	"ipcbench/phase"
	"ipcbench/transports/driver"
	"ipcbench/transports/driver/drivertest"
	"ipcbench/transports/http/store"
)

// TestSecret: every endpoint refuses a request without the secret before reading its body,
// and changes nothing.
func TestSecret(t *testing.T) {
	r := open(t, "http-shm", vectors(t, 2, 100), 1)
	r.Publish(1)
	before, _ := r.Counts()
	secret := strings.TrimSuffix(r.secret(), "\r\n")
	for pattern, request := range r.requests("0") {
		for what, shown := range map[string]string{
			"nothing":        "",
			"an empty value": "Authorization: \r\n",
			"another secret": "Authorization: Bearer ABCDEFGHIJKLMNOPQRSTUVWXYZ\r\n",
			"most of it":     secret[:len(secret)-1] + "\r\n",
			"more than it":   secret + "A\r\n",
			"another scheme": strings.Replace(r.secret(), "Bearer", "Basic", 1),
		} {
			a := r.say(request + shown + "\r\n")
			a.Want(401, "the request must have the header field Authorization", pattern, "with", what)
			check.That(t, a.Close, "%s with %s: the connection goes on", pattern, what)
		}
	}
	after, _ := r.Counts()
	for name, n := range since(before, after) {
		check.That(t, !strings.HasPrefix(name, phase.Served) || n == 0, "%s: a stranger was served", name)
	}
	r.Prove(0, driver.Job{})
}

// TestOtherConnections: a connection that is not the worker's cannot deliver an update or
// end the lane, even with the secret. A JSON update is refused before its body arrives.
func TestOtherConnections(t *testing.T) {
	for _, variant := range []string{"http", "http-shm"} {
		r := open(t, variant, vectors(t, 1, 8), 1)
		r.Publish(1)
		j := driver.Job{Round: 3, Client: 5}
		check.Must(t, r.Server.Dispatch(t.Context(), 0, j))
		table := tableOf(t, r.Options.Up)
		head := []string{fieldRound, "3", fieldClient, "5", fieldReceipt, "0", fieldCache, "0", fieldCached, "0", store.FieldTable, strconv.Itoa(len(table))}
		for _, body := range []string{table + "12345678", strings.Repeat("\xff", len(table)+8)} {
			r.ask("POST", "/v1/results/0", body, head...).Want(409, "another connection", variant)
		}
		for fields, code := range map[string]int{
			"": 400, "Job-Round: 3": 400, "Job-Round: 3\nJob-Client: 5": 409,
		} {
			r.try("POST /v1/results/0\nCache-Bytes: 0\nCache-Tensors: 0\nContent-Type: application/json\nContent-Length: 1000000\n"+fields).
				Want(code, "", variant, "JSON", fields)
		}
		_, err := drivertest.Dial(t.Context(), r.Variant, r.At(0), 0, r.Options)
		check.Fails(t, err, r.Variant.Subject.Name()+": lane 0: dial: POST /v1/lanes/0: 409 Conflict: lane 0: the lane already has a worker")
		done := make(chan error, 1)
		go func() { done <- drivertest.Turn(t.Context(), r.Workers[0].Worker, drivertest.Stock) }()
		p, err := r.Server.Collect(t.Context(), 0)
		check.Must(t, errors.Join(err, <-done))
		p.Release()
		r.Prove(0, driver.Job{Round: 4})
	}
}

// TestAcceptFails: if a server can no longer accept connections, Collect and Dispatch say
// so.
func TestAcceptFails(t *testing.T) {
	r := open(t, "http", vectors(t, 1, 10), 1)
	r.Publish(1)
	check.Must(t, r.Server.Dispatch(t.Context(), 0, driver.Job{}))
	check.Must(t, r.server.listener.Listener.Close())
	waiting.Do(t, "collect", func() {
		_, err := r.Server.Collect(t.Context(), 0)
		check.Fails(t, err, "http: lane 0: collect: round 0, client 0: the server can no longer accept connections: accept")
	})
	check.Fails(t, r.Server.Dispatch(t.Context(), 0, driver.Job{}), "can no longer accept connections")
}
