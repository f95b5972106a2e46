package slab

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/zeebo/xxh3"

	"ipcbench/internal/test/check"
)

// readCopy copies the block that h names, with the checks that readers make before and
// after.
func readCopy(r *Reader, dst []byte, h Handle) error {
	b, err := r.View(h, len(dst))
	if err != nil {
		return err
	}
	copy(dst, b)
	return r.Check(h)
}

// TestReader: A2, A14, A20, A21: a reader sees published blocks, and notices a block that
// was released while it read.
func TestReader(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pool")
	p, nonce, err := CreatePool(path, 8192, "")
	check.Must(t, err)
	audited(p)
	r := check.Value(OpenReader(path, nonce, ""))(t)

	h, b := reserved(t, p, 100)
	copy(b, "a tensor")
	got := make([]byte, 100)
	refused(t, readCopy(r, got, h), ErrStale) // in flight
	check.Must(t, p.Publish(h))
	check.Must(t, readCopy(r, got, h))
	check.That(t, bytes.Equal(got, b), "bytes differ")
	refused(t, readCopy(r, got[:99], h), ErrLength)
	far := h
	far.Offset = 1<<64 - 64
	refused(t, readCopy(r, got, far), ErrBounds)
	far.Offset = 0 // no room for a stamp
	refused(t, readCopy(r, got, far), ErrBounds)

	view := check.Value(r.View(h, 100))(t)
	check.Must(t, p.Release(h))
	refused(t, r.Check(h), ErrStale)
	check.That(t, len(view) == 100, "view is gone")
	h2, _ := reserved(t, p, 100)
	check.Must(t, p.Publish(h2))
	refused(t, readCopy(r, got, h), ErrStale)

	// A30: the file has the requested size; A28: nothing is left behind.
	info := check.Value(os.Stat(path))(t)
	check.That(t, info.Size() == headerSize+8192 && info.Mode().Perm() == 0o600, "got %d bytes, mode %v", info.Size(), info.Mode())
	check.Must(t, p.Release(h2))
	check.Must(t, p.Close())
	_, err = os.Stat(path)
	refused(t, err, os.ErrNotExist)
	check.Must(t, r.Close())
	check.Must(t, r.Close()) // A28: twice is harmless
}

// TestHeaderIsChecked: A3, A4: a slab's header is checked completely: every byte of the nonce
// counts, and the file must be regular and its user's own.
func TestHeaderIsChecked(t *testing.T) {
	good := make([]byte, headerSize+64)
	encodeHeader(good, 64, Nonce{7})
	type damage struct {
		change func(b []byte) []byte
		want   error
	}
	all := map[string]damage{
		"good":      {func(b []byte) []byte { return b }, nil},
		"empty":     {func(b []byte) []byte { return nil }, ErrHeader},
		"cut":       {func(b []byte) []byte { return b[:headerUsed] }, ErrSize},
		"longer":    {func(b []byte) []byte { return append(b, 0) }, ErrSize},
		"magic":     {func(b []byte) []byte { b[0]++; return b }, ErrHeader},
		"version":   {func(b []byte) []byte { b[7]++; return b }, ErrHeader},
		"size":      {func(b []byte) []byte { b[8]++; return b }, ErrHeader},
		"huge size": {func(b []byte) []byte { binary.LittleEndian.PutUint64(b[8:], 1<<63); resum(b); return b }, ErrSize},
		"checksum":  {func(b []byte) []byte { b[32]++; return b }, ErrHeader},
	}
	for i := range len(Nonce{}) {
		all[fmt.Sprint("nonce ", i)] = damage{func(b []byte) []byte { b[16+i]++; resum(b); return b }, ErrNonce}
	}
	for name, c := range all {
		path := filepath.Join(t.TempDir(), "pool")
		check.Must(t, os.WriteFile(path, c.change(bytes.Clone(good)), 0o600))
		r, err := OpenReader(path, Nonce{7}, "")
		check.That(t, errors.Is(err, c.want), "%s: got %v, want %v", name, err, c.want)
		if err == nil {
			check.Must(t, r.Close())
		}
	}
	link := filepath.Join(t.TempDir(), "link")
	check.Must(t, os.Symlink("/dev/zero", link))
	_, err := OpenReader(link, Nonce{}, "")
	check.That(t, err != nil, "followed a link")
	_, err = OpenReader(t.TempDir(), Nonce{}, "")
	refused(t, err, ErrNotRegular)

	// A user who can write to a file's directory can replace the file.
	dir := t.TempDir()
	check.Must(t, os.WriteFile(filepath.Join(dir, "pool"), good, 0o600))
	for _, mode := range []os.FileMode{0o720, 0o702} {
		check.Must(t, os.Chmod(dir, mode))
		_, err = OpenReader(filepath.Join(dir, "pool"), Nonce{7}, "")
		refused(t, err, ErrNotOwn)
	}
	check.Must(t, os.Chmod(dir, 0o700))
	check.Must(t, os.Symlink(dir, link+"-dir"))
	_, err = OpenReader(link+"-dir/pool", Nonce{7}, "")
	check.That(t, err != nil, "followed a link to a directory")
}

func resum(b []byte) { binary.LittleEndian.PutUint64(b[32:], xxh3.Hash(b[:32])) }

func FuzzDecodeHeader(f *testing.F) {
	good := make([]byte, headerSize)
	encodeHeader(good, 64, Nonce{7})
	f.Add(good, int64(headerSize+64))
	f.Add(good[:headerUsed], int64(0))
	f.Fuzz(func(t *testing.T, b []byte, size int64) {
		capacity, _, err := decodeHeader(b, size)
		check.That(t, err != nil || int64(capacity)+headerSize == size, "accepted %d bytes in a file of %d", capacity, size)
	})
}
