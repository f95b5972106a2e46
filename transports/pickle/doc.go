// Package pickle moves packages by serializing them, as a Python process pool
// does with pickle; here the serializer is encoding/gob.
//
//   - [New] sends model and update through one socket a lane. The model goes with
//     every job. Copies per direction: tensor to gob's buffer, buffer to socket,
//     socket to gob's buffer, buffer to tensor: 2 in user space by gob, 2 by the
//     kernel.
//   - [Storage] writes them to files and sends paths: the model once a round, each
//     client's update in the file that held its job. The same four copies, the
//     kernel's being to and from the page cache. Nothing is synced to a disk.
//     Where the directory is a tmpfs, as /tmp is on some systems, the files are
//     memory, and count as such.
//
// Tensor data goes through gob as []byte, in values of at most 1 MiB, so that
// gob's buffers stay in the processor's cache. gob allocates a buffer for every
// value that it decodes: allocations grow with the model, and that is part of what
// this transport costs. The setting elems=on sends slices of numbers instead,
// which gob encodes element by element.
//
// A gob decoder must not be fed by strangers: nobody gets that far who has not shown
// the session's secret. What arrives is checked against the layout all the same.
package pickle
