package batched

import (
	"context"

	pb "ipcbench/transports/batched/federationpb"
	"ipcbench/transports/endpoint"
)

// aggregator is the server's name in headers.
const aggregator = "aggregator"

// secretKey is the metadata key under which every request carries the session's secret.
// Metadata arrives before the message.
const secretKey = "authorization"

// checkHeader returns a refusal unless h equals want. An empty sender in want matches
// any sender.
func checkHeader(h, want *pb.MessageHeader) error {
	switch {
	case h == nil:
		return refuse(noHeader, "the message has no header")
	case h.Receiver != want.Receiver:
		return refuse(wrongReceiver, "receiver must be %q, not %q", want.Receiver, h.Receiver)
	case h.FederationId != want.FederationId:
		return refuse(wrongFederation, "federation %q is another session's", h.FederationId)
	case want.Sender != "" && h.Sender != want.Sender:
		return refuse(wrongSender, "sender must be %q, not %q", want.Sender, h.Sender)
	}
	return nil
}

// admit returns the lane whose worker sent h. It refuses another receiver or federation, a
// sender that is not a lane, and a certificate that is not valid for the lane (O4, O21 in
// docs/reference/mechanisms.md).
func (s *server) admit(ctx context.Context, h *pb.MessageHeader) (*lane, error) {
	if err := checkHeader(h, s.header); err != nil {
		return nil, err
	}
	i, ok := endpoint.LaneOf(h.Sender, len(s.lanes))
	if !ok {
		return nil, refuse(wrongSender, "sender must be a lane from %q to %q, not %q", endpoint.LaneName(0), endpoint.LaneName(len(s.lanes)-1), h.Sender)
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
