package batched

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	pb "ipcbench/transports/batched/federationpb"
	"ipcbench/transports/driver"
)

// aggregator is the server's name in headers.
const aggregator = "aggregator"

// secretKey is the metadata with which every request shows the session's secret,
// before its message comes.
const secretKey = "authorization"

// federationOf returns what the session is called in headers: 16 hexadecimal digits,
// of a hash of its secret, so that they are no secret.
func federationOf(e *driver.Endpoint) string {
	h := sha256.Sum256([]byte(e.Secret()))
	return hex.EncodeToString(h[:8])
}

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

// checkHeader refuses a message whose header is not like want, in which an empty
// sender stands for any.
func checkHeader(h, want *pb.MessageHeader) error {
	switch {
	case h == nil:
		return refuse(noHeader, "no header")
	case h.Receiver != want.Receiver:
		return refuse(wrongReceiver, "receiver %q: this is %q", h.Receiver, want.Receiver)
	case h.FederationId != want.FederationId:
		return refuse(wrongFederation, "federation %q is not this one", h.FederationId)
	case want.Sender != "" && h.Sender != want.Sender:
		return refuse(wrongSender, "sender %q: want %q", h.Sender, want.Sender)
	}
	return nil
}

// admit returns the lane whose worker sent h, and refuses what is meant for
// somebody else.
func (s *server) admit(ctx context.Context, h *pb.MessageHeader) (*lane, error) {
	if err := checkHeader(h, s.header); err != nil {
		return nil, err
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
