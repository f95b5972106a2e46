package batched

import (
	"fmt"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A reason is why a request or a response is refused. It travels as the Reason of
// an ErrorInfo beside the status code, so that clients in any language can tell
// apart what shares a code.
type reason uint8

// The reasons.
const (
	noHeader reason = iota
	wrongReceiver
	wrongFederation
	wrongSender
	wrongLayout
	wrongTask
	wrongTensor
	wrongSize
	unknownTensor
	duplicateTensor
	duplicateResults
	emptyStream
	outOfOrder
	cutShort
	overLimit
	unknownCodec
	busy
	closing
	stalled
	malformed
	lastReason = malformed
)

var reasons = [lastReason + 1]struct {
	name string
	code codes.Code
}{
	noHeader:         {"NO_HEADER", codes.InvalidArgument},
	wrongReceiver:    {"WRONG_RECEIVER", codes.NotFound},
	wrongFederation:  {"WRONG_FEDERATION", codes.PermissionDenied},
	wrongSender:      {"WRONG_SENDER", codes.Unauthenticated},
	wrongLayout:      {"WRONG_LAYOUT", codes.FailedPrecondition},
	wrongTask:        {"WRONG_TASK", codes.FailedPrecondition},
	wrongTensor:      {"WRONG_TENSOR", codes.InvalidArgument},
	wrongSize:        {"WRONG_SIZE", codes.OutOfRange},
	unknownTensor:    {"UNKNOWN_TENSOR", codes.NotFound},
	duplicateTensor:  {"DUPLICATE_TENSOR", codes.AlreadyExists},
	duplicateResults: {"DUPLICATE_RESULTS", codes.AlreadyExists},
	emptyStream:      {"EMPTY_STREAM", codes.InvalidArgument},
	outOfOrder:       {"OUT_OF_ORDER", codes.Aborted},
	cutShort:         {"CUT_SHORT", codes.DataLoss},
	overLimit:        {"OVER_LIMIT", codes.ResourceExhausted},
	unknownCodec:     {"UNKNOWN_CODEC", codes.Unimplemented},
	busy:             {"BUSY", codes.Unavailable},
	closing:          {"CLOSING", codes.Canceled},
	stalled:          {"STALLED", codes.DeadlineExceeded},
	malformed:        {"MALFORMED", codes.Internal},
}

// domain says whose reasons these are.
const domain = "ipcbench"

// refuse returns a status error for why.
func refuse(why reason, format string, args ...any) error {
	r := reasons[why]
	st := status.New(r.code, fmt.Sprintf(format, args...))
	if with, err := st.WithDetails(&errdetails.ErrorInfo{Reason: r.name, Domain: domain}); err == nil {
		st = with
	}
	return st.Err()
}

// hasReason reports whether err is a refusal for why, made here or by the peer.
func hasReason(err error, why reason) bool {
	st, ok := status.FromError(err)
	if !ok {
		return false
	}
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok && info.Domain == domain {
			return info.Reason == reasons[why].name
		}
	}
	return false
}
