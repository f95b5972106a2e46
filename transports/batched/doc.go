// Package batched sends models over gRPC: per tensor, per batch, or as a stream of chunks.
// The transports [Unary] (grpc-tensor), [Batched] (grpc-batch) and [Streaming] (grpc-stream)
// differ as OpenFL's download methods do. All three upload results as a stream of chunks. They share the server, the worker and the
// protocol, federation.proto. A transport only determines how workers fetch the model.
//
// Both directions encode tensors the same way. A chunker cuts a package into pieces, and
// encode builds a message from them. At the other end, decode splits the message and an
// assembly copies the pieces into place. The model goes from serve.go to fetch.go,
// results from send.go to receive.go.
//
// # Speed
//
// The protocol is plain protobuf, so generated clients in any language can use it. By
// default (marshal=inplace) this package's own codec processes messages with tensors. It
// sends tensor data by reference and copies received data once, from gRPC's frames to
// its final place. gRPC itself adds a copy into its write buffer and one out of its
// read buffer, 16 KiB at a time.
//
// Flow-control windows are 8 MiB per stream and 32 MiB per connection, so that a sender
// has chunks in flight while the receiver's window updates return. A Unix socket's send
// buffer is 1 MiB, as in every transport: see [endpoint.SocketBuffer]. A chunk is 2 MiB
// by default; rounds take about as long with chunks from 512 KiB to 8 MiB. Reading
// frames straight into place and writing them with writev, without gRPC's two buffers,
// was tried and gained nothing, because a system call per 16 KiB frame costs as much as
// the copies.
//
// With marshal=generated, messages are objects of generated code instead, encoded and
// decoded by gRPC's own codec with gRPC's default buffers and windows. Users of generated
// code, such as Flower and NVFlare, pay this cost. The bytes sent and all checks are the
// same. gRPC runs that codec in its send and receive calls, so its time is part of
// phase.Send and phase.Read.
//
// The server allocates two models and lanes × depth updates, each worker a model and an
// update, all on the heap and reused. In addition, received frames are held until they
// are copied into place: one window and one chunk for a stream, the whole model for a
// batch, one tensor for a single-tensor call. With marshal=generated these received
// bytes exist four times, and are allocated anew in every round. gRPC also produces
// about 100 bytes of garbage per frame, 0.5 to 1 % of the payload.
//
// So only grpc-stream bounds the memory of a download, beyond the models themselves, by
// window and chunk. Uploads are bounded this way in all three. Complete models are lent
// at both ends, as package driver requires.
//
// # Encoded tensors
//
// A tensor encoded by a codec travels as bytes. Its message also gives the decoded data
// type and shape, the codec's steps, the base, and whether the encoding is lossless.
// Receivers cannot predict this description, unlike others, so they parse it; they rely
// only on the length, which they check. ipcbench workers request encoded tensors. Other
// clients get them decoded. If they require a lossless tensor and the encoding is lossy,
// the request is refused with the tensor's name.
//
// # Other clients
//
// From Listen to Shutdown, the session's directory contains the file
// [endpoint.AddressFile] with the address and the session's secret, readable only by its
// owner. federation.proto tells authors of clients in other languages all they need;
// testdata/collaborator.py is an example.
//
// # Counting
//
// Each call is counted under its method's name, in the round of its job, even GetTasks,
// which waits for a job. Failed attempts that are repeated count as retries. For each job
// a client calls GetTasks once, makes as many fetches as the transport needs, and calls
// SendLocalTaskResults once per report. With conn=per-call, connections.ns is the time
// that workers spent opening connections, from connect(2) until HTTP/2 can be used. It
// is part of a round but of no phase.
//
// With threads=N, at most N requests are in service at a time, which means that the
// server decodes, looks up or encodes for them. A request that waits for a job, for
// bytes or for a slow reader does not count, as with the completion queues of gRPC
// servers in other languages. With hold=call, a request keeps its thread until gRPC has
// encoded the response and handed it to its transport, even while it waits for bytes or,
// in a stream, for a reader. gRPC servers with a thread per call, such as Python's, work
// this way. The transport takes a response that is one message at once, so it uses no
// thread while its client reads. A report without tensors uses no thread. Only a request
// that must wait for a thread is recorded as phase.Queue, and counted.
//
// Requests are also counted by the number in service when the server starts on them,
// even without a bound. A stream starts again with each message, unless it holds its
// thread.
//
// # Trust
//
// Every request carries the session's secret as metadata, "authorization: Bearer
// SECRET", which is checked before the message is read. A client with a wrong secret
// costs the buffers of a connection, 140 KiB, for at most ten seconds, and there are few
// such connections (see [endpoint.Listener]).
//
// Each request names its sender, receiver and federation, and the response mirrors
// them. Both ends refuse messages that are not addressed to them. The federation's name
// is a hash of the secret and is not confidential. A lane belongs to the first worker
// that joins it.
//
// Received data is checked before use. Each refusal has a status code and a reason. No
// message may describe more tensors than were requested. With the setting deadline,
// the server ends every request after that time, whatever the client asked for.
package batched
