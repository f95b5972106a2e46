// Package reply has answers of an HTTP server, with assertions.
package reply

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"

	"ipcbench/internal/test/check"
)

// A Reply is an answer with its body.
type Reply struct {
	*http.Response
	t    check.TB
	Text string
}

// Of reads the body of an answer.
func Of(t check.TB, a *http.Response, err error) Reply {
	t.Helper()
	check.Must(t, err)
	defer a.Body.Close()
	text, _ := io.ReadAll(a.Body) // a server that refuses a request may cut off its answer
	return Reply{a, t, string(text)}
}

// To makes one request. head lists the names and values of header fields in turn.
func To(ctx context.Context, t check.TB, c *http.Client, method, url, body string, head ...string) Reply {
	t.Helper()
	q := check.Value(http.NewRequestWithContext(ctx, method, url, strings.NewReader(body)))(t)
	for pair := range slices.Chunk(head, 2) {
		q.Header.Set(pair[0], pair[1])
	}
	a, err := c.Do(q)
	return Of(t, a, err)
}

// Want checks the status code and a part of the body.
func (a Reply) Want(code int, text string, context ...any) Reply {
	a.t.Helper()
	check.That(a.t, a.StatusCode == code && strings.Contains(a.Text, text), "%v: got %d %.300q, want %d and %.300q", context, a.StatusCode, a.Text, code, text)
	return a
}
