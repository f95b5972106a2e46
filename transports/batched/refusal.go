package batched

import (
	"fmt"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A reason states why a request or a response is refused. Its name is sent as the Reason
// of an ErrorInfo in addition to the status code, so that clients in any language can
// distinguish refusals that share a code.
type reason struct {
	name string
	code codes.Code
}

var (
	noSecret         = reason{"NO_SECRET", codes.Unauthenticated}
	noHeader         = reason{"NO_HEADER", codes.InvalidArgument}
	wrongReceiver    = reason{"WRONG_RECEIVER", codes.NotFound}
	wrongFederation  = reason{"WRONG_FEDERATION", codes.PermissionDenied}
	wrongSender      = reason{"WRONG_SENDER", codes.Unauthenticated}
	wrongCertificate = reason{"WRONG_CERTIFICATE", codes.PermissionDenied}
	wrongLayout      = reason{"WRONG_LAYOUT", codes.FailedPrecondition}
	wrongTask        = reason{"WRONG_TASK", codes.FailedPrecondition}
	wrongTensor      = reason{"WRONG_TENSOR", codes.InvalidArgument}
	wrongSize        = reason{"WRONG_SIZE", codes.OutOfRange}
	unknownTensor    = reason{"UNKNOWN_TENSOR", codes.NotFound}
	duplicateTensor  = reason{"DUPLICATE_TENSOR", codes.AlreadyExists}
	duplicateResults = reason{"DUPLICATE_RESULTS", codes.AlreadyExists}
	emptyStream      = reason{"EMPTY_STREAM", codes.InvalidArgument}
	outOfOrder       = reason{"OUT_OF_ORDER", codes.Aborted}
	cutShort         = reason{"CUT_SHORT", codes.DataLoss}
	overLimit        = reason{"OVER_LIMIT", codes.ResourceExhausted}
	unknownCodec     = reason{"UNKNOWN_CODEC", codes.Unimplemented}
	lossyCodec       = reason{"LOSSY_CODEC", codes.FailedPrecondition}
	taken            = reason{"TAKEN", codes.AlreadyExists}
	busy             = reason{"BUSY", codes.Unavailable}
	closing          = reason{"CLOSING", codes.Canceled}
	stalled          = reason{"STALLED", codes.DeadlineExceeded}
	malformed        = reason{"MALFORMED", codes.Internal}
)

// domain is the Domain of each ErrorInfo, to which its Reason belongs.
const domain = "ipcbench"

// refuse returns a status error with the code and name of why and a formatted text.
func refuse(why reason, format string, args ...any) error {
	info := &errdetails.ErrorInfo{Reason: why.name, Domain: domain}
	st, _ := status.New(why.code, fmt.Sprintf(format, args...)).WithDetails(info) // fails only without an error code
	return st.Err()
}

// hasReason reports whether err is a refusal with reason why, by this process or the peer.
func hasReason(err error, why reason) bool {
	st, ok := status.FromError(err)
	if !ok {
		return false
	}
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok && info.Domain == domain {
			return info.Reason == why.name
		}
	}
	return false
}
