package cli

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"ipcbench/bench/session"
	"ipcbench/identity"
)

// tlsFlags are the flags for certificates and keys of the user. Each is a field of
// [identity.Files].
type tlsFlags struct{ identity.Files }

func (f *tlsFlags) add(fs *pflag.FlagSet) {
	fs.StringVar(&f.CA, "tls-ca", "", "trust the certificate authorities in `FILE`")
	fs.StringSliceVar(&f.Cert, "tls-cert", nil, "`LIST` of certificate files: the server's, then the workers'")
	fs.StringSliceVar(&f.Key, "tls-key", nil, "`LIST` of key files, one per certificate")
	fs.StringSliceVar(&f.Names, "tls-names", nil, "`LIST` of common names in the workers' certificates")
}

// files returns the files that the flags name, with absolute paths, after checking that they
// are valid for the cells. It returns nil without these flags.
func (f *tlsFlags) files(cells []session.Spec) (*identity.Files, error) {
	if f.Zero() {
		return nil, nil
	}
	uses := func(modes ...string) bool {
		return slices.ContainsFunc(cells, func(s session.Spec) bool { return slices.Contains(modes, s.Variant.Settings["tls"]) })
	}
	paths := [][]string{{f.CA}, slices.Clone(f.Cert), slices.Clone(f.Key)}
	for i, flag := range []string{"--tls-ca", "--tls-cert", "--tls-key"} {
		if len(paths[i]) == 0 || slices.Contains(paths[i], "") {
			return nil, hinted{usagef("%s is missing: --tls-ca, --tls-cert and --tls-key must be given together", flag), "docs/network.md shows how to make them with openssl"}
		}
		for k, path := range paths[i] { // worker processes have other working directories
			var err error
			if paths[i][k], err = filepath.Abs(path); err != nil {
				return nil, err
			}
		}
	}
	if !uses("on", "mutual") {
		return nil, hinted{usagef("--tls-ca: none of the transports uses TLS"), "add a setting, as in --transport http:tls=mutual, or remove --tls-*"}
	}
	files := &identity.Files{CA: paths[0][0], Cert: paths[1], Key: paths[2], Names: f.Names}
	if err := files.Check(uses("mutual")); err != nil {
		if wrong := (*identity.Error)(nil); errors.As(err, &wrong) {
			return nil, hinted{usagef("--tls-%s: %w", strings.ToLower(wrong.Field), err), "docs/network.md explains certificates"}
		}
		return nil, err
	}
	return files, nil
}
