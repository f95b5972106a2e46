// Package http moves tensors through a store over HTTP/1.1, as reinforcement-
// learning systems do, and through shared memory where the peer proves that it is
// on the same machine.
//
//   - [New] is "http". A client costs three exchanges on one kept connection: a
//     request that parks until there is a job, one for all tensors of the model
//     (or several, with batch=), and one that carries the update. Tensors are raw
//     bytes, sent from where they lie and read into their places: no copy but the
//     kernel's two. What such systems ship is body=json, which is base64 in JSON
//     and alone allocates memory in proportion to the model, and
//     conn=per-request, a new connection for every request.
//   - [Local] is "http-shm". The server's models lie in a slab, and updates in one
//     slab a lane. Answers that exist anyway say where they lie, so a
//     local client costs two exchanges without tensors. Whoever is not local gets
//     bodies from the same store.
//
// A tensor's way down: Publish puts the model into the store (server.go, memory.go) and
// Dispatch a job into the lane's mailbox (lane.go), which answers the request that is
// parked there (seat.go). The worker looks for the tensors in the slab (shared.go) and
// has the store's fetcher ask the store's batch for those that are not there
// (store/fetch.go, store/serve.go). Up: uploadRaw or uploadJSON (worker.go) are undone
// by readRaw or readJSON (results.go), into memory that the lane lends. Requests and
// answers are package exchange's.
//
// Whether a peer is local is proved and not concluded from addresses or host
// names: the worker must open the slab that the server names and find the
// server's nonce in it, and the server must find in the lane's slab what it asked
// the worker to write there. A tensor that is not in the slab (no room, an
// element type of another system), or whose generation there is not the announced
// one, is fetched as a body: that one alone. Every such fallback is counted
// with its reason, and the bytes that went either way are, too.
//
// A slab has one writer: the server that of the models, the lane's worker that of
// its updates. Their names have mode 0400, and 0600 while a worker joins and proves
// that it is local. So the kernel refuses other writers of the same user, though not
// root.
//
// A worker reads a model where it lies: not a copy. Its generations are checked
// before the model is lent and again before the update is sent. With copy=out both ends
// read clones, and the generations are checked as soon as there is one. With missing=25
// a quarter of a model's tensors never gets into the slab: what fallbacks cost.
//
// The store, package store, holds the published models, of which there are one or two
// and whose tensors have the ids
// NAME.0, NAME.1, …, and tensors that clients put:
//
//	PUT    /v1/tensors/ID      201, 200 if it replaced one; answers where it lies
//	GET    /v1/tensors/ID      the bytes; Tensor-Dtype and Tensor-Shape say what they are
//	DELETE /v1/tensors/ID      204
//	POST   /v1/batch           ids: all their tensors, in order
//	POST   /v1/clear           ids: deletes their tensors and says how many there were
//	GET    /v1/stats           what the store holds, what was asked, what workers have cached
//	POST   /v1/drain           workers empty their caches before their next job; drain=on asks for it with every model
//	GET    /v1/ping            204
//	POST   /v1/lanes/LANE      a worker takes a lane; DELETE gives it back; POST …/local proves that it is local
//	GET    /v1/jobs/LANE       parks until there is a job; 410 when the session is over
//	POST   /v1/results/LANE    takes the update of that job
//
// Ids come one a line, or as {"shard_ids": [...]} with the header field
// Content-Type: application/json, which a batch answers in JSON. Otherwise it
// answers with Table-Bytes bytes that say what the Tensor-Count tensors are, a line
// {"dtype":"f32","shape":[64,3],"bytes":768} each, and then their bytes.
//
// In a session with a codec, GET answers with what a model's tensor decodes to, and a
// batch with what workers get: the encoding, which it calls bytes, for they decode it
// with what the job's receipt says.
//
// What is wrong is answered in JSON, in the field error, but for what is no
// HTTP/1.1. An unknown path or id is 404, in a batch 400 with the list of those
// missing, and a method that a path does not have 405; what the server cannot read
// is 400, 411, 413 or 431, what it has no room for 507, what does not fit the state
// of a lane 409, and what goes wrong inside 500 with its cause. Every wait for a peer
// that is in the middle of something is bounded. A body that cannot be completed ends
// short of its Content-Length, and so is never taken for a whole one.
//
// In the systems that this is modelled on, the consumer of a tensor fetches it
// from the process that produced it, and every process is a server. That topology
// is not the round trip that is measured here: there is one server, and it is the
// consumer of updates. The store's own endpoints offer it to whoever wants to try.
//
// Every request has to show the session's secret, before anything else of it is
// looked at, in the header field
//
//	Authorization: Bearer SECRET
//
// Who does not is answered 401, and its connection is closed. With mutual TLS it also
// has to say for which lane of its certificate it is, in the field Sender: lane-N; who
// does not, or has no right to, is answered 403. Users find address and secret in a file
// of the session's private directory:
//
//	read -r a < $TMPDIR/ipcbench-…/address
//	auth() { printf 'Authorization: Bearer %s\n' "${a##*#}"; } # keeps it out of the list of processes
//	where=${a%#*}
//	auth | curl -H @- --unix-socket "${where#unix:}" http://ipcbench/v1/stats
//	auth | curl -H @- "http://${where#tcp:}/v1/stats" # with network=tcp
//
// How strangers are kept few, and for how long, says driver.Listener. Whoever makes
// thousands of connections can slow down workers that connect (with conn=per-request,
// for every request), but not end the session. Without tls=on or tls=mutual nothing is
// encrypted: root can read what the loopback interface carries.
//
// Only the connection on which a worker took its lane can deliver the lane's
// update. With conn=per-request there is no such connection: there, whoever has
// the secret can and, with mutual TLS, a certificate for the lane.
//
// docs/protocol.md says what of this a worker in Python speaks.
//
// PUT takes element types by name. The ten of package tensor may be spelt f32 or,
// as in safetensors, F32, and come back as f32; other names are types that are
// not known here, whose bytes are kept as they are. Ids of models belong to the
// session and cannot be put.
package http
