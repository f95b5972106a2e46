// Package bench is the measuring core: it runs cells in blocks, proves their
// data, measures the floors between them, and returns raw samples with
// everything that is needed to judge them.
//
// A cell is a transport variant with a model and a number of workers and
// clients. A block is one session of fresh processes for one cell. Blocks of all
// cells are run in a random order, which is drawn anew for each run and whose seed the result
// holds, so that a drift of the machine falls on all cells alike.
//
// Of a block's rounds the first is cold and reported apart, the second is
// proved, some more warm up, and the rest are timed, but for those that are
// proved: every eighth and the last. A proved round checks every element of every
// update. After each round, timed or not, the new model's hash must be the one that
// the same arithmetic gives without any transport: the reference chain, whose
// computation is also the floor called work.
//
// Workers can be in Python, with a user's own function in the place of ours: then no
// chain is known, and what they got and sent is compared by its hashes. A peer, which is
// somebody's own program, runs whole blocks itself, and proves them by the same hashes.
//
// A run can also take blocks of another build of the same program in turn, so
// that two commits are compared in the same moods of the machine, and each block in
// another layout of its build, so that a linker is not mistaken for a commit; copy one of its
// cells as it is and slowed down, so that a gate can be tried (a canary); start
// fresh workers for every round (respawn); and take profiles, in blocks of their
// own.
//
// Package bench never prints, imports no transport and computes only the
// statistics that it needs to know when to stop.
package bench
