// Package http implements two transports over HTTP/1.1. Both keep tensors in a store on
// the server, as reinforcement-learning systems do. The second also uses shared memory,
// for workers that prove that they run on the server's machine.
//
//   - [New] returns "http". A client costs three exchanges on one kept connection: a
//     request that the server parks until there is a job, one that fetches all tensors
//     of the model (several with the setting batch), and one that carries the update.
//     Tensors are sent from and received into their final memory as raw bytes, so only
//     the kernel copies them, twice. Two settings imitate such systems: body=json sends
//     base64 in JSON, and is the only setting that allocates memory in proportion to the
//     model; conn=per-request opens a connection for every request.
//   - [Local] returns "http-shm". One slab of shared memory holds the server's models,
//     and one slab per lane holds updates. Their locations travel in requests and answers
//     that are needed anyway, so a local client costs two exchanges without tensors in
//     them. A worker that is not local gets bodies from the same store.
//
// Downlink: Publish puts the model into the store (server.go, memory.go), and Dispatch puts
// a job into the lane's mailbox (lane.go). The mailbox answers the request that is parked
// there (holder.go). The worker looks for tensors in the slab (shared.go), and the store's
// fetcher requests the others with POST /v1/batch (store/fetch.go, store/serve.go). Uplink:
// readRaw and readJSON (results.go) decode the bodies that uploadRaw and uploadJSON
// (worker.go) send, into memory of the lane. Package exchange implements requests and
// answers.
//
// A peer must prove that it is local; addresses and host names prove nothing. The worker
// must open the slab that the server names and find the server's nonce in it. The server
// must find, in the lane's slab, the challenge that it asked the worker to write there. A
// single tensor is fetched as a body if it is not in the slab, because there was no room or
// its element type is unknown, or if its generation is not the announced one. Every such
// fallback is counted with its reason. Bytes that move either way are counted, too.
//
// Each slab has one writer: the server writes models, and the lane's worker writes its
// updates. The slabs' files have mode 0400, or 0600 while a worker joins and proves that it
// is local. So the kernel rejects other writers of the same user, except root.
//
// A worker reads a model in the slab without copying it. It checks the generations before it
// lends the model and again before it sends the update. With copy=out both ends read
// clones, and check the generations as soon as a clone exists. With missing=25 a quarter of
// a model's tensors never enters the slab, to measure the cost of fallbacks.
//
// The store (package store) holds one or two published models, whose tensors have the ids
// NAME.0, NAME.1, …, and the tensors that clients put:
//
//	PUT    /v1/tensors/ID      201, or 200 if it replaced one; answers with its location
//	GET    /v1/tensors/ID      the bytes, with type and shape in Tensor-Dtype and Tensor-Shape
//	DELETE /v1/tensors/ID      204
//	POST   /v1/batch           takes ids, answers with all their tensors in order
//	POST   /v1/clear           takes ids, deletes their tensors, answers with their number
//	GET    /v1/stats           contents of the store and of workers' caches, requests served
//	POST   /v1/drain           workers empty their caches before their next job; drain=on does so with every model
//	GET    /v1/ping            204
//	POST   /v1/lanes/LANE      a worker takes a lane; DELETE gives it back; POST …/local proves that it is local
//	GET    /v1/jobs/LANE       parks until there is a job; 410 when the session is over
//	POST   /v1/results/LANE    carries the update of that job
//
// Ids are sent one per line, or as {"shard_ids": [...]} with the header field Content-Type:
// application/json. In the second case a batch is answered in JSON. Otherwise the answer
// begins with a table of Table-Bytes bytes. It has one line for each of Tensor-Count
// tensors, such as {"dtype":"f32","shape":[64,3],"bytes":768}. The tensors' bytes follow.
//
// In a session with a codec, GET decodes a model's tensor. A batch instead returns the
// encoded tensors that workers get, with an element type that means bytes: workers decode
// them with the job's receipt.
//
// Errors are answered in JSON, in the field error, unless the request is not HTTP/1.1. The
// status is 404 for an unknown path or id; in a batch 400 with a list of the unknown ids.
// It is 405 for a method that the path lacks; 400, 411, 413 or 431 for an unreadable
// request; 507 if there is no room; 409 for a request that does not fit the lane's state;
// and 500 with the cause for an internal error. The time of a body is not bounded, because a
// network may be slow: the session watches whether anything moves. A body that cannot be
// completed ends before its Content-Length, so it cannot be mistaken for a complete one.
//
// In the systems that this imitates, the consumer of a tensor fetches it from the process
// that produced it, and every process is a server. The round measured here is different:
// a single server consumes all updates. To try the other topology, use the store's own
// endpoints.
//
// Every request must show the session's secret, which is checked first, in the header field
//
//	Authorization: Bearer SECRET
//
// A request without it is answered with 401, and its connection is closed. With mutual TLS
// a request must also name a lane of its certificate in the field Sender: lane-N. Without
// it, or with a lane that is not in the certificate, the answer is 403. Users find address
// and secret in a file of the session's private directory:
//
//	read -r a < $TMPDIR/ipcbench-…/address
//	auth() { printf 'Authorization: Bearer %s\n' "${a##*#}"; } # keeps it out of the list of processes
//	where=${a%#*}
//	auth | curl -H @- --unix-socket "${where#unix:}" http://ipcbench/v1/stats
//	auth | curl -H @- "http://${where#tcp:}/v1/stats" # with network=tcp
//
// endpoint.Listener bounds the number of strangers and the time that they have. A peer that
// opens thousands of connections can slow down workers that connect (with conn=per-request,
// every request), but cannot end the session. Without tls=on or tls=mutual nothing is
// encrypted, and root can read the traffic of the loopback interface.
//
// Only the connection on which a worker took its lane can deliver the lane's update. With
// conn=per-request there is no such connection: any peer with the secret can deliver it, if
// it also has, with mutual TLS, a certificate for the lane.
//
// docs/reference/protocol.md lists the part of this that workers in Python use.
//
// PUT accepts element types by name. The ten types of package tensor may be spelled f32 or,
// as in safetensors, F32, and are returned as f32. Tensors of any other type are stored as
// bytes under that name. Ids of models belong to the session and cannot be put.
package http
