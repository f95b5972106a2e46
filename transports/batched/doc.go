// Package batched moves models over gRPC in the three ways between which OpenFL
// chose: a call for each tensor ([Unary], grpc-tensor), one call for all tensors
// ([Batched], grpc-batch), and a stream of chunks ([Streaming], grpc-stream).
package batched
