// Package tensor defines data types, layouts, packages of tensors, and a round's arithmetic.
//
//   - [DType], [Spec] and [Layout] describe a model. A Layout is immutable and compared
//     by pointer, so a round needs no allocations or checks for shapes.
//   - A [Package] is the unit of exchange: a receipt (any bytes) and one tensor per spec
//     of its layout. Packages are lent, and returned with Release. If a spec is Var, each
//     package sets how many of the tensor's rows are in use.
//   - [Average] averages updates into the next model, in client order. [Train] and
//     [Advance] compute the numbers of a benchmark's rounds, as
//     docs/reference/arithmetic.md defines them.
//   - Package models, below this one, has the models to measure with.
//
// Data enters and leaves in memory only: the package does no I/O. All numbers are
// little-endian, as on every machine that it is built for.
package tensor
