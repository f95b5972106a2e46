// Package pickle sends packages serialized with gob, through sockets or files.
// A Python process pool does the same with pickle.
//
//   - [New] sends model and update through one socket per lane. The model is sent with
//     every job. Each direction makes four copies: tensor to gob's buffer, buffer to
//     socket, socket to gob's buffer, buffer to tensor. gob makes two of them in user
//     space and the kernel makes two.
//   - [Storage] writes them to files and sends paths. The model is written once per
//     round, and each client's update replaces the file that held its job. It makes the
//     same four copies, but the kernel's are to and from the page cache. Files are not
//     synced to disk. If the directory is a tmpfs, as /tmp is on some systems, the files
//     use memory and are counted as memory.
//
// By default, tensor data passes through gob as []byte, in values of at most 1 MiB, so
// that gob's buffers stay in the processor's cache. gob allocates a buffer for every
// value that it decodes, so allocations grow with the model, a cost of this transport.
// With elems=on, tensors are slices of numbers, which gob encodes one by one.
package pickle
