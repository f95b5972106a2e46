package trainer

import (
	"context"
	"errors"
	"testing"

	"ipcbench/internal/test/check"
)

// TestSent: the hashes that workers report for their jobs can be read later and in any
// order. An invalid or repeated report is an error.
func TestSent(t *testing.T) {
	open := func(clients int) (*Session, *sessionProcess) {
		s := &Session{cfg: Config{UserCode: true}, proofs: make(chan proof, 2*clients), reported: map[job]Sent{}}
		s.failed, s.fail = context.WithCancelCause(t.Context())
		return s, &sessionProcess{lanes: []*sessionLane{{n: 1}, {n: 2}}}
	}
	hash := "00000000000000ff"
	for name, c := range map[string]struct {
		heard []proof
		want  string
	}{
		"in order":         {[]proof{{1, 3, 0, hash, "1"}, {2, 3, 1, hash, "2"}}, ""},
		"another order":    {[]proof{{1, 3, 1, hash, "2"}, {1, 3, 0, hash, "1"}}, ""},
		"twice":            {[]proof{{1, 3, 1, hash, "2"}, {1, 3, 1, hash, "2"}}, "round 3, client 1"},
		"another round":    {[]proof{{1, 2, 0, hash, "1"}}, "round 2, client 0"},
		"no hash":          {[]proof{{1, 3, 0, hash, "one"}}, "round 3, client 0"},
		"too large a hash": {[]proof{{1, 3, 0, "1" + hash, "1"}}, "round 3, client 0"},
		"nothing":          {nil, "the session's end"},
	} {
		s, w := open(2)
		for _, p := range c.heard {
			check.OK(t, s.keepProof(w, &p), name)
		}
		if c.heard == nil {
			s.fail(errors.New("the session's end"))
		}
		var err error
		for client := range 2 {
			var got Sent
			if got, err = s.Sent(t.Context(), 3, client); err != nil {
				break
			}
			check.Equal(t, got, (Sent{255, uint64(client + 1)}), name, "client", client)
		}
		if c.want == "" {
			check.OK(t, err, name)
		} else {
			check.Fails(t, err, c.want, name)
		}
	}
	s, w := open(1)
	for _, p := range []proof{{1, 0, 0, hash, hash}, {3, 0, 0, hash, hash}} {
		check.Equal(t, s.keepProof(w, &p) == nil, p.Lane == 1, "lane", p.Lane)
	}
	_, flood := s.keepProof(w, &proof{Lane: 1}), s.keepProof(w, &proof{Lane: 1})
	check.Is(t, flood, errProtocol, "as many as anybody likes")
}
