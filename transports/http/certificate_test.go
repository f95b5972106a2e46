package http

import (
	"bytes"
	"crypto/tls"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/internal/test/waiting"
	"ipcbench/transports/driver/drivertest"
	"ipcbench/transports/endpoint"
)

// TestSenders: O4, O21. Each request must name its sender. An endpoint refuses a request
// without one, or with one that the certificate is not for, before it reads a byte of the
// body. A lane's endpoints refuse other lanes.
func TestSenders(t *testing.T) {
	r := start(t, "http:network=tcp:tls=mutual", vectors(t, 2, 100), 3)
	config := drivertest.Certified(t, r.Endpoint, 1)
	answers := func(code int, what, request, sender string) {
		t.Helper()
		raw := check.Value(net.DialTimeout("tcp", strings.TrimPrefix(r.Endpoint.Addr(), "tcp:"), waiting.Limit))(t)
		defer raw.Close()
		waiting.Conn(t, raw)
		tell(t, tls.Client(raw, config), r.admitted(request)+sender+"\r\n").Want(code, "", what, sender)
	}
	for pattern, request := range r.requests("1") {
		for _, sender := range []string{"", "Sender: \r\n", "Sender: lane-0\r\n", "Sender: lane-9\r\n", "Sender: lane-01\r\n", "Sender: 1\r\n", "Sender: lane-0\r\nSender: lane-1\r\n"} {
			answers(403, pattern, request, sender)
		}
		if strings.Contains(pattern, "{lane}") {
			answers(403, pattern, r.requests("0")[pattern], "Sender: lane-1\r\n")
		}
	}
	answers(200, "the right sender", r.requests("1")["GET /v1/stats"], "Sender: lane-1\r\n")
}

// TestCurl: A1, O21. curl with a certificate is served as the certificate's lane, on either
// network. As another lane, or without a certificate, it is refused with the reason.
func TestCurl(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		skip.Missing(t, "curl")
	}
	for _, network := range []string{"tcp", "unix"} {
		r := start(t, "http:tls=mutual:network="+network, vectors(t, 2, 100), 2)
		cert, key := drivertest.Files(t, drivertest.Certified(t, r.Endpoint, 1))
		ca := filepath.Join(r.Dir, endpoint.AuthorityFile)
		_, where, _ := strings.Cut(r.Endpoint.Addr(), ":")
		reach := []string{"--unix-socket", where}
		if network == "tcp" {
			reach = []string{"--connect-to", "aggregator:443:" + where}
		}
		for _, c := range []struct {
			what, sender string
			own          []string
			says         string
		}{
			{"a certificate", "lane-1", []string{"--cert", cert, "--key", key}, `"connections":1`},
			{"another lane", "lane-0", []string{"--cert", cert, "--key", key}, `the certificate is for lanes 1, and this is lane 0`},
			{"no certificate", "lane-1", nil, "certificate required"},
		} {
			args := append(append([]string{"-sS", "--max-time", "10", "-H", "@-", "--cacert", ca}, reach...), c.own...)
			cmd := exec.CommandContext(t.Context(), "curl", append(args, "https://aggregator/v1/stats")...)
			cmd.Stdin = strings.NewReader("Authorization: " + r.Endpoint.Authorization() + "\nSender: " + c.sender + "\n")
			out, _ := cmd.CombinedOutput() // its error only has the exit code
			check.That(t, bytes.Contains(out, []byte(c.says)), "%s: %s: got %s, want %q in it", network, c.what, out, c.says)
		}
	}
}
