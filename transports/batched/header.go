package batched

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	pb "ipcbench/transports/batched/federationpb"
)

// aggregator is the server's name in headers.
const aggregator = "aggregator"

// federationKey is the metadata of every request that names the federation, which
// is checked before the message comes. The header in the message is checked too.
const federationKey = "federation-id"

// laneName returns a lane's name in headers.
func laneName(lane int) string { return "lane-" + strconv.Itoa(lane) }

// laneOf is the inverse of laneName.
func laneOf(name string, lanes int) (int, bool) {
	digits, ok := strings.CutPrefix(name, "lane-")
	lane, err := strconv.Atoi(digits)
	if !ok || err != nil || lane < 0 || lane >= lanes || laneName(lane) != name {
		return 0, false
	}
	return lane, true
}

// admit returns the lane whose worker sent h, and refuses what is meant for
// somebody else.
func (s *server) admit(ctx context.Context, h *pb.MessageHeader) (*lane, error) {
	switch {
	case h == nil:
		return nil, refuse(noHeader, "no header")
	case h.Receiver != aggregator:
		return nil, refuse(wrongReceiver, "receiver %q: this is %q", h.Receiver, aggregator)
	case h.FederationId != s.federation:
		return nil, refuse(wrongFederation, "federation %q is not this one", h.FederationId)
	}
	i, ok := laneOf(h.Sender, len(s.lanes))
	if !ok {
		return nil, refuse(wrongSender, "sender %q is none of the %d lanes", h.Sender, len(s.lanes))
	}
	if c := connOf(ctx); c != nil {
		c.belongsTo(s.lanes[i])
	}
	return s.lanes[i], nil
}

// checkReply refuses a response whose header does not mirror the request's.
func (w *worker) checkReply(h *pb.MessageHeader) error {
	switch {
	case h == nil:
		return refuse(noHeader, "response without a header")
	case h.Receiver != w.name:
		return refuse(wrongReceiver, "response for %q: this is %q", h.Receiver, w.name)
	case h.FederationId != w.federation:
		return refuse(wrongFederation, "response of federation %q", h.FederationId)
	case h.Sender != aggregator:
		return refuse(wrongSender, "response of %q: want %q", h.Sender, aggregator)
	}
	return nil
}

// An address is where a server listens and which federation it serves: what
// Addr returns and Dial takes.
type address struct{ network, at, federation string }

func (a address) String() string { return a.network + ":" + a.at + "#" + a.federation }

// addressFile is where a client that no worker process of ours is finds the
// address, in the session's directory. The package comment says how.
const addressFile = "grpc-address"

func parseAddress(text string) (address, error) {
	where, federation, ok := strings.Cut(text, "#")
	network, at, ok2 := strings.Cut(where, ":")
	if !ok || !ok2 || federation == "" || at == "" {
		return address{}, fmt.Errorf("address %q: want network:address#federation", text)
	}
	return address{network, at, federation}, nil
}
