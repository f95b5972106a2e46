package agent

import (
	"context"
	"net"

	"ipcbench/bench/floors"
)

// Plays makes the agent's process play the second part of a floor; see [floors.Far].
func (a *Agent) Plays(ctx context.Context, o floors.Order) error { return a.ask(ctx, "floor", o, nil) }

// floor plays the second part of a floor, one floor at a time, until the server closes
// the stream.
func (s *service) floor(conn net.Conn, o floors.Order) error {
	if err := s.allowed.CheckAddr(o.Addr); err != nil {
		return err
	}
	s.playing.Lock()
	defer s.playing.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	atEnd(conn, cancel)
	if err := floors.Play(ctx, o); err != nil {
		return err
	}
	return say(conn, nil)
}
