package trainer

import (
	"debug/elf"
	"runtime/debug"
	"strings"
	"sync"
)

// Build identifies this program by module and version, and also by a hash of the
// executable's content if the version is unknown or not a clean commit. It is empty without
// build information. The server and its workers must have the same.
var Build = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	build := info.Main.Path + "@" + info.Main.Version
	if v := info.Main.Version; v == "" || v == "(devel)" || strings.Contains(v, "+dirty") {
		build += " " + buildID()
	}
	return build
})

// buildID returns the content hash that go build has put into this executable: the last
// part of the note that go tool buildid prints. It is empty if there is none.
func buildID() string {
	f, err := elf.Open("/proc/self/exe")
	if err != nil {
		return ""
	}
	defer f.Close()
	note := f.Section(".note.go.buildid")
	if note == nil {
		return ""
	}
	b, err := note.Data()
	if err != nil || len(b) < 16 { // the header: three sizes and the name Go
		return ""
	}
	id := strings.TrimRight(string(b[16:]), "\x00")
	return id[strings.LastIndexByte(id, '/')+1:]
}
