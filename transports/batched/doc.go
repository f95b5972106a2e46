// Package batched moves models over gRPC in the three ways between which OpenFL
// chose: a call for each tensor ([Unary], grpc-tensor), one call for all tensors
// ([Batched], grpc-batch), and a stream of chunks ([Streaming], grpc-stream).
// Results go up in chunks in all three. There is one server, one worker, and one
// way to write a tensor, federation.proto; a transport is how its worker fetches.
//
// A tensor goes the same way down and up, and what is done to it at one end is undone
// at the other: a chunker cuts a package into pieces, encode makes a message of them;
// decode takes a message apart, an assembly puts the pieces in place. Down, that is
// between serve.go and fetch.go, up between send.go and receive.go.
//
// # Speed
//
// The protocol is plain protobuf, and every generated client in any language is
// welcome. But a codec of our own makes those bytes and reads them: it sends the
// data of tensors by reference, and copies what arrives once, out of gRPC's
// frames into its final place. What remains is gRPC's: a copy into its write
// buffer and one out of its read buffer, 16 KiB at a time.
//
// Windows are 8 MiB for a stream and 32 MiB for a connection, so that a sender has
// some chunks under way while the receiver's permission for more comes back. A Unix
// socket's send buffer is 1 MiB, as with every transport: see [driver.SocketBuffer]. A chunk is 2 MiB: from 512 KiB to 8 MiB, rounds take about
// as long. Reading frames straight into place and writing them with writev, without
// gRPC's own two buffers, was tried and gained nothing: a system call for every
// frame of 16 KiB costs what the copies save.
//
// With marshal=generated none of that is done: messages are objects of generated
// code, which gRPC's own codec makes and reads, with gRPC's own buffers and windows.
// That is what users of generated code pay, as those of Flower and NVFlare do. The
// bytes on the wire are the same, and so are all checks. gRPC calls that codec where
// it sends and receives, so that its time is in phase.Send and phase.Read.
//
// A session uses two models and lanes × depth updates of memory on the server,
// and a model and an update in each worker, all on the heap and reused. Beside
// that lie the frames of what was received and not yet put into place: of a
// stream, its window and one chunk; of a batch, the whole model; of a single
// tensor, that tensor. With marshal=generated all of that lies there four times, and
// is allocated anew in every round.
// Every frame costs gRPC some 100 bytes of garbage, which is 0.5 to 1 % of the
// payload.
//
// So what a download needs beside the models is bounded by windows and chunk, and
// not by the model, with grpc-stream alone; an upload's is with all three. The
// models themselves are lent whole at both ends, as the contract of package driver
// has it.
//
// # Encoded tensors
//
// What a codec has made of a tensor travels as bytes, and its message says of what:
// data type and shape of the tensor, the steps, the base, and whether the tensor is
// exactly what its sender had. Nobody can know that before, as they know what is said
// of other tensors, so receivers read it; they believe nothing of it but the length.
// Our workers ask for tensors as they travel. Others get them decoded, or are refused,
// by name, if they require a lossless tensor that is not.
//
// # Other clients
//
// The address and the session's secret stand in the file [driver.AddressFile] in the
// session's directory, which its owner alone can read, from Listen to Shutdown.
// federation.proto says all that a client in another language has to know;
// testdata/collaborator.py is one.
//
// # Counting
//
// A call counts, under its method's name, in the round of the job that it is
// about, also GetTasks, which parks until there is one. Attempts that failed and
// were made again count as retries. A client makes GetTasks once,
// as many fetches as its transport says, and as many SendLocalTaskResults as
// there are reports. With conn=per-call, connections.ns is how long the workers
// waited for connections of their own, from connect(2) until HTTP/2 may be spoken:
// that is part of a round, and of no phase.
//
// With threads=N, at most N requests are in service at a time: the server decodes,
// looks up or encodes for them. One that waits for a job, for bytes, or for a client to
// read has no share in that, as with the completion queues of gRPC servers in other
// languages. A server with a thread for each call, as those of gRPC in Python have it,
// keeps the thread until the call's handler returns, also while that waits for bytes or,
// in a stream, for a reader: so does hold=call. gRPC sends the answer to a unary request
// when the handler has returned and its thread is free, there as here. A report without
// tensors takes no thread. A wait for one of the N is recorded as phase.Queue, and
// counted; a request that finds one free records nothing.
//
// Also without a bound, requests are counted by how many were in service when the
// server began with them. A stream begins anew with each of its messages, unless it
// holds its thread.
//
// # Trust
//
// Every request shows the session's secret as metadata, "authorization: Bearer
// SECRET", which is checked before a byte of its message is taken: whoever does not
// know it costs the buffers of a connection, 140 KiB, for ten seconds at most, and
// there are few of them (see [driver.Listener]).
//
// Each request says who sends it to whom in which federation, and each response
// mirrors it; either end refuses what is not meant for it. The federation's name is a
// hash of the secret, and no secret. A lane is the worker's who has joined it first.
//
// Nothing is believed before it was checked. A refusal has a status code and a reason
// of its own. No message may describe more tensors than were asked for, and no request
// lives longer than its deadline, whatever its client says.
package batched
