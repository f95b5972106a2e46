// Package session measures one block in this process: it starts a session of fresh workers, runs
// its rounds, proves their data and accounts for their time.
//
// A [Spec] names a cell, and a result.Plan how long to measure it. A [Run] takes both, with a
// launcher of workers and the [Chain] of hashes that every model must match, and fills in a
// result.Block. The first round is cold and reported separately, the second is proved, and some
// more warm up. The rest are timed, except every eighth and the last, which are proved. A proved
// round checks every element of every update. After each round, the new model's hash must match the
// chain: the same arithmetic without any transport, whose duration is also the floor named work.
//
// It does not know which block comes next (package bench), who else runs blocks (package program),
// or where workers run (package place).
package session
