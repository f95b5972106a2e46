package result

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
)

func zippedText(t testing.TB, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	check.Must(t, check.Err(io.WriteString(z, text)))
	check.Must(t, z.Close())
	return b.Bytes()
}

// TestGzip: compressed files are recognized by their contents, and written if the name ends in .gz. Damaged or endless
// ones are rejected with a one-line error.
func TestGzip(t *testing.T) {
	skip.Long(t)
	dir := t.TempDir()
	want := tiny()
	named, plain := filepath.Join(dir, "r.json.gz"), filepath.Join(dir, "r.json")
	for _, path := range []string{named, plain} {
		check.Must(t, want.WriteFile(path))
	}
	small := check.Value(os.ReadFile(named))(t)
	large := check.Value(os.ReadFile(plain))(t)
	check.That(t, bytes.HasPrefix(small, []byte(gzipMagic)) && !bytes.HasPrefix(large, []byte(gzipMagic)) && len(small) <= len(large)/2,
		"%d bytes with the name, %d without", len(small), len(large))
	misnamed := filepath.Join(dir, "zipped.json")
	check.Must(t, os.WriteFile(misnamed, small, 0o600))
	for _, path := range []string{named, plain, misnamed} {
		got, err := ReadFile(path)
		check.Must(t, err, path)
		check.Same(t, cmp.Diff(want, got, everyField), path)
	}
	flipped := bytes.Clone(small)
	flipped[len(flipped)-6] ^= 1 // one bit of the checksum
	const spaces = 1 << 20
	bomb := slices.Concat(zippedText(t, `{"schema": 5, "command": [`), bytes.Repeat(zippedText(t, strings.Repeat(" ", spaces)), 2*mostBomb/spaces))
	for name, tt := range map[string]struct {
		text []byte
		want string
	}{
		"cut":            {small[:len(small)/2], "truncated: the gzip data is incomplete"},
		"cut in its end": {small[:len(small)-3], "truncated: the gzip data is"},
		"cut in the top": {small[:5], "truncated: the gzip data is"},
		"magic alone":    {small[:2], "truncated: the gzip data is"},
		"checksum":       {flipped, "damaged: gzip: invalid checksum"},
		"something else": {append(bytes.Clone(small), "more than a header has"...), "damaged: gzip: invalid header"},
		"no gzip":        {[]byte(gzipMagic + "hello, this is none"), "damaged: gzip: invalid header"},
		"bomb":           {bomb, "larger than 1048576 bytes, and compressed to less than 1/50: not an ipcbench result"},
		"zipped twice":   {zippedText(t, string(small)), `begins with '\x1f'`},
		"not JSON":       {zippedText(t, "hello"), "begins with 'h'"},
		"empty":          {zippedText(t, ""), "empty file: not an ipcbench result"},
		"truncated JSON": {zippedText(t, string(large[:len(large)/2])), "truncated: ends after"},
	} {
		path := filepath.Join(dir, "bad.json.gz")
		check.Must(t, os.WriteFile(path, tt.text, 0o600))
		_, err := ReadFile(path)
		oneLine(t, err, path+": ")
		check.Fails(t, err, tt.want, name)
	}
}

// TestExpansion: a few bytes of text cannot take much memory, nor the time to fill it. The first list that is too long is named, also if
// the file is not compressed.
func TestExpansion(t *testing.T) {
	const head, plain = `{"schema":5,"plan":{"blocks":1,"span_room":1},`, 60 << 20
	block := head + `"cells":[{"blocks":[{`
	for _, tt := range []struct{ head, entry, want string }{
		{head + `"cells":[`, `{}`, "cells[10"},
		{head + `"hosts":[`, `{}`, "hosts[12"},
		{head + `"cells":[`, `{"blocks":[{},{}]}`, "].blocks["},
		{head + `"cells":[{"blocks":[`, `{}`, "cells[0].blocks[7"},
		{block + `"processes":[`, `{}`, "cells[0].blocks[0].processes[23"},
		{block + `"cold":{"processes":[`, `{}`, "cells[0].blocks[0].cold.processes[87"},
		{block + `"round_ns":[`, `0`, "compressed to less than 1/50"},
		{head + `"command":[`, `""`, "compressed to less than 1/50"},
		{head + `"floors":[{"blocks":[`, `[]`, "compressed to less than 1/50"},
	} {
		part := strings.Repeat(tt.entry+",", 1<<20/(len(tt.entry)+1))
		zipped := append(zippedText(t, tt.head), bytes.Repeat(zippedText(t, part), plain>>20)...)
		texts := [][]byte{zipped}
		if !strings.HasPrefix(tt.want, "compressed") { // the text itself may be large
			texts = append(texts, []byte(tt.head+strings.Repeat(part, 6)))
		}
		for _, text := range texts {
			path := filepath.Join(t.TempDir(), "r.json")
			check.Must(t, os.WriteFile(path, text, 0o600))
			before := heap()
			_, err := ReadFile(path)
			taken := heap() - before
			oneLine(t, err, path+": ")
			check.Fails(t, err, tt.want)
			check.That(t, taken <= 100e6, "%s, %d bytes: took %d MB", tt.entry, len(text), taken/1e6)
		}
	}
}
