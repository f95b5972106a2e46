// Package tensor holds the values that ipcbench moves: data types, shapes, the
// memory layout of a model, packages of tensors, and the arithmetic of a
// round.
//
//   - [DType], [Spec] and [Layout] say what a model looks like. A Layout is
//     immutable and compared by pointer, so that nothing about shapes has to be
//     allocated or checked again in a round.
//   - A [Package] is what travels: a receipt (any bytes) and one tensor for each
//     spec of its layout. Packages are lent, and given back with Release. Where a
//     spec is Var, a package says how many of a tensor's rows it uses.
//   - [Average] folds updates into the next model, in client order. [Train] and
//     [Advance] make the numbers that are measured with, as docs/arithmetic.md says.
//   - Sub-package models names the model shapes that people measure with.
//
// The package imports nothing of ours, starts no goroutine and does no I/O.
// All numbers are little-endian, as on every machine that it is built for.
package tensor
