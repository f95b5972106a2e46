// Package bench plans and runs measurements. It runs each cell in blocks (one session of
// fresh processes each), verifies the data and measures the machine's own limits in
// between. It returns raw samples, prints nothing, imports no transport and computes only
// the statistics it needs to decide when to stop.
//
// A cell is a transport variant with a model and a number of workers and clients. The
// blocks of all cells run in random order, so that a drift of the machine affects all
// cells alike. The order is new for each run; the result holds its seed.
//
// In each block, the first round is cold and reported separately, the second is proved,
// and some more warm up. The rest are timed, except every eighth and the last, which are
// proved. A proved round checks every element of every update. After each round, the new
// model's hash must match the reference chain: the same arithmetic without any transport.
// The duration of that arithmetic is also the floor named work.
//
// Workers can be in Python, and run a user's own function. Its results are unknown in
// advance, so tensors are compared by hashes at both ends. A peer, a user's own program,
// runs whole blocks itself, and is checked against the reference chain.
//
// A run can also alternate blocks of two builds, so that both meet the same machine
// conditions. Each block can use another layout of its build, so that an effect of
// linking is not mistaken for one of a commit. A canary, an identical and a slowed copy
// of a cell, tests a gate. Respawn starts fresh workers for every round. Profiles are
// taken in blocks of their own.
package bench
