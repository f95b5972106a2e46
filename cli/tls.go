package cli

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"ipcbench/bench"
	"ipcbench/identity"
)

// tlsFlags name keys and certificates that the user has. Each is a field of
// [identity.Files].
type tlsFlags struct{ identity.Files }

func (f *tlsFlags) add(fs *pflag.FlagSet) {
	fs.StringVar(&f.CA, "tls-ca", "", "for tls=on and tls=mutual: trust the authorities in `FILE` instead of one that each session makes")
	fs.StringSliceVar(&f.Cert, "tls-cert", nil, "`LIST` of files of certificates: the server's, then those of worker processes, which take them in turn")
	fs.StringSliceVar(&f.Key, "tls-key", nil, "`LIST` of files: the key of each certificate")
	fs.StringSliceVar(&f.Names, "tls-names", nil, "`LIST` of the common names in worker processes' certificates, in the same order")
}

// files returns what the flags name, if they do and all of it will be accepted.
func (f *tlsFlags) files(cells []bench.Spec) (*identity.Files, error) {
	if f.Zero() {
		return nil, nil
	}
	uses := func(modes ...string) bool {
		return slices.ContainsFunc(cells, func(s bench.Spec) bool { return slices.Contains(modes, s.Variant.Settings["tls"]) })
	}
	paths := [][]string{{f.CA}, slices.Clone(f.Cert), slices.Clone(f.Key)}
	for i, flag := range []string{"--tls-ca", "--tls-cert", "--tls-key"} {
		if len(paths[i]) == 0 || slices.Contains(paths[i], "") {
			return nil, hinted{usagef("%s: a file is missing: --tls-ca, --tls-cert and --tls-key belong together", flag), "docs/tls.md shows how to make them with openssl"}
		}
		for k, path := range paths[i] { // worker processes open them from anywhere
			var err error
			if paths[i][k], err = filepath.Abs(path); err != nil {
				return nil, err
			}
		}
	}
	if !uses("on", "mutual") {
		return nil, hinted{usagef("--tls-ca: none of these transports uses TLS"), "add a setting, as in --transport http:tls=mutual, or leave --tls-* out"}
	}
	files := &identity.Files{CA: paths[0][0], Cert: paths[1], Key: paths[2], Names: f.Names}
	if err := files.Check(uses("mutual")); err != nil {
		if wrong := (*identity.Error)(nil); errors.As(err, &wrong) {
			return nil, hinted{usagef("--tls-%s: %w", strings.ToLower(wrong.Field), err), "docs/tls.md says what to try"}
		}
		return nil, err
	}
	return files, nil
}
