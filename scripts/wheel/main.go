// Command wheel packs binaries of ipcbench into Python wheels.
//
//	go run ./scripts/wheel -name ipcbench -version v0.1.0 dist/ipcbench-v0.1.0-linux-amd64 ...
//
// A wheel is written next to each binary. It has the binary as a command, and the package
// ipcbench_worker. Its times are SOURCE_DATE_EPOCH, so equal input gives equal bytes.
package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	name := flag.String("name", "", "the distribution's name on a package index")
	version := flag.String("version", "", "the version, such as v0.1.0")
	flag.Parse()
	for _, binary := range flag.Args() {
		if err := write(*name, *version, binary); err != nil {
			fmt.Fprintf(os.Stderr, "wheel: %s: %v\n", binary, err)
			os.Exit(1)
		}
	}
}

// platform returns the tags of the systems on which a static binary runs, which needs no libc. pip accepts the
// first with glibc 2.17 or newer, and the second with musl 1.1 or newer, which are older than any that Python 3.9 is
// built for today.
func platform(binary string) (string, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return "", err
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	machine := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[settings["GOARCH"]]
	if settings["GOOS"] != "linux" || settings["CGO_ENABLED"] != "0" || machine == "" {
		return "", errors.New("must be built with CGO_ENABLED=0 GOOS=linux, and GOARCH amd64 or arm64")
	}
	return "manylinux2014_" + machine + ".musllinux_1_1_" + machine, nil
}

var released = regexp.MustCompile(`^v(\d+\.\d+\.\d+)(?:-(rc)\.(\d+))?(?:-(dev))?(\+[a-z0-9.]+)?$`)

// normal returns a version as Python's packages write it (PEP 440).
func normal(version string) (string, error) {
	m := released.FindStringSubmatch(version)
	if m == nil {
		return "", fmt.Errorf("VERSION=%s must be like v0.1.0, v0.1.0-rc.1 or v0.0.0-dev+g1234", version)
	}
	if m[4] != "" {
		m[4] = ".dev0"
	}
	return strings.Join(m[1:], ""), nil
}

const metadata = `Metadata-Version: 2.1
Name: %s
Version: %s
Summary: Measures how a training server and its workers exchange model tensors
Requires-Python: >=3.9
Provides-Extra: python
Requires-Dist: numpy; extra == "python"
Requires-Dist: xxhash; extra == "python"
Description-Content-Type: text/markdown

%s`

// contents returns the wheel's files by path, except RECORD.
func contents(name, version, on, binary string) (map[string][]byte, string, error) {
	normal, err := normal(version)
	if err != nil {
		return nil, "", err
	}
	sources, err := filepath.Glob("python/ipcbench_worker/*.[pc]*") // as python/embed.go
	from := map[string]string{".data/scripts/ipcbench": binary}
	for _, path := range sources {
		if ext := filepath.Ext(path); ext == ".py" || ext == ".c" {
			from["ipcbench_worker/"+filepath.Base(path)] = path
		}
	}
	stem := strings.ReplaceAll(name, "-", "_") + "-" + normal
	files := map[string][]byte{}
	for to, path := range from {
		text, e := os.ReadFile(path)
		err = errors.Join(err, e)
		if strings.HasPrefix(to, ".") {
			to = stem + to
		}
		files[to] = text
	}
	const unknown = `VERSION = ""`
	own := files["ipcbench_worker/__init__.py"]
	if bytes.Count(own, []byte(unknown)) != 1 {
		err = errors.Join(err, fmt.Errorf("python/ipcbench_worker/__init__.py must have one line %s", unknown))
	}
	files["ipcbench_worker/__init__.py"] = bytes.Replace(own, []byte(unknown), []byte("VERSION = "+strconv.Quote(version)), 1)
	install, e := os.ReadFile("docs/install.md")
	info := stem + ".dist-info/"
	files[info+"METADATA"] = fmt.Appendf(nil, metadata, name, normal, install)
	wheel := "Wheel-Version: 1.0\nGenerator: ipcbench\nRoot-Is-Purelib: false\n"
	for tag := range strings.SplitSeq(on, ".") {
		wheel += "Tag: py3-none-" + tag + "\n"
	}
	files[info+"WHEEL"] = []byte(wheel)
	return files, stem, errors.Join(err, e)
}

// write writes the wheel with a binary next to it.
func write(name, version, binary string) error {
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH must be the time of the commit: %w", err)
	}
	on, err := platform(binary)
	if err != nil {
		return err
	}
	files, stem, err := contents(name, version, on, binary)
	if err != nil {
		return err
	}
	var record strings.Builder
	for _, path := range slices.Sorted(maps.Keys(files)) {
		sum := sha256.Sum256(files[path])
		fmt.Fprintf(&record, "%s,sha256=%s,%d\n", path, base64.RawURLEncoding.EncodeToString(sum[:]), len(files[path]))
	}
	last := stem + ".dist-info/RECORD"
	files[last] = []byte(record.String() + last + ",,\n")

	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for _, path := range slices.Sorted(maps.Keys(files)) {
		h := &zip.FileHeader{Name: path, Method: zip.Deflate, Modified: time.Unix(seconds, 0).UTC()}
		h.SetMode(0o644)
		if strings.Contains(path, "/scripts/") {
			h.SetMode(0o755)
		}
		w, err := z.CreateHeader(h)
		if err == nil {
			_, err = w.Write(files[path])
		}
		if err != nil {
			return err
		}
	}
	if err := z.Close(); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(filepath.Dir(binary), stem+"-py3-none-"+on+".whl"), out.Bytes(), 0o644)
}
