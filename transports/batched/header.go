package batched

import (
	"context"

	pb "ipcbench/transports/batched/federationpb"
	"ipcbench/transports/driver"
)

// aggregator is the server's name in headers.
const aggregator = "aggregator"

// secretKey is the metadata with which every request shows the session's secret,
// before its message comes.
const secretKey = "authorization"

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
// somebody else, and who may not speak for the lane: O4, O21.
func (s *server) admit(ctx context.Context, h *pb.MessageHeader) (*lane, error) {
	if err := checkHeader(h, s.header); err != nil {
		return nil, err
	}
	i, ok := driver.LaneOf(h.Sender, len(s.lanes))
	if !ok {
		return nil, refuse(wrongSender, "sender %q is none of the %d lanes", h.Sender, len(s.lanes))
	}
	if c := connOf(ctx); c != nil {
		if err := c.Speaks(i); err != nil {
			c.Refused(err)
			return nil, refuse(wrongCertificate, "sender %q: %v", h.Sender, err)
		}
		c.belongsTo(s.lanes[i])
	}
	return s.lanes[i], nil
}
