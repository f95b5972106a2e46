package cli

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
)

// certificates makes a folder with the files that docs/network.md describes, by running the
// page's commands, and some invalid ones.
func certificates(t *testing.T) (dir string) {
	t.Helper()
	if _, err := exec.LookPath("openssl"); err != nil {
		skip.Missing(t, "openssl 3 (Debian: openssl)")
	}
	page := check.Value(os.ReadFile("../docs/network.md"))(t)
	commands := regexp.MustCompile("(?s)```bash\n(.*?)```").FindSubmatch(page)
	check.Need(t, commands != nil, "docs/network.md has no commands")
	cmd := exec.Command("bash", "-ec", string(commands[1])+`
		openssl pkey -in clinic.key -aes256 -passout pass:word -out encrypted.key`)
	cmd.Dir = t.TempDir()
	out, err := cmd.CombinedOutput()
	check.Need(t, err == nil, "%v\n%s", err, out)
	return cmd.Dir
}

func in(t *testing.T, dir string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := command(t, args...)
	cmd.Dir = dir
	return outcome(t, cmd)
}

// TestTLSFiles: O21: workers with the user's own certificates and listed common names take
// part. Problems of certificates are errors before anything starts. Package identity tests
// more of them.
func TestTLSFiles(t *testing.T) {
	skip.Long(t)
	dir := certificates(t)
	given := func(transport, ca, cert, key, names string) []string {
		args := []string{"run", "--transport", transport, "--model", "uniform:64KiB/4", "--workers", "2", "--clients", "2"}
		for flag, value := range map[string]string{"--tls-ca": ca, "--tls-cert": cert, "--tls-key": key, "--tls-names": names} {
			if value != "" {
				args = append(args, flag, value)
			}
		}
		return args
	}
	const (
		mutual = "http:tls=mutual"
		certs  = "server.crt,hospital.crt,clinic.crt"
		keys   = "server.key,hospital.key,clinic.key"
		names  = "hospital,clinic"
	)
	run := append(given("http:tls=mutual,grpc-stream:tls=mutual:network=tcp,pickle:tls=on,shm-slab", "ca.crt", certs, keys, names),
		"--rounds", "2", "--blocks", "1", "--warmup", "0", "--format", "csv", "--out", "out.json")
	out, says, code := in(t, dir, run...)
	check.That(t, code == 0 && strings.Count(out, ",proved,") >= 4, "code %d: %s%s", code, says, out)

	for _, test := range []struct {
		name string
		args []string
		want string // regular expression for the beginning of stderr
	}{
		{"encrypted", given(mutual, "ca.crt", certs, "server.key,hospital.key,encrypted.key", names), `--tls-key: .*/encrypted.key: the key is encrypted.*openssl pkey -in .*\nhint: docs/network.md `},
		{"another's key", given(mutual, "ca.crt", certs, "server.key,clinic.key,hospital.key", names), `--tls-cert: .*/hospital.crt, with the key in .*/clinic.key: tls: private key does not match public key`},
		{"no names", given(mutual, "ca.crt", certs, keys, ""), `--tls-names: there are 0 names for 2 certificates of worker processes`},
		{"no keys", given(mutual, "ca.crt", certs, "", names), `--tls-key is missing`},
		{"names alone", given(mutual, "", "", "", names), `--tls-ca is missing`},
		{"an empty entry", given(mutual, "ca.crt", "server.crt,", keys, names), `--tls-cert is missing`},
		{"no TLS", given("http,pickle", "ca.crt", certs, keys, names), `--tls-ca: none of the transports uses TLS\nhint: .*http:tls=mutual`},
	} {
		_, says, code := in(t, dir, append(test.args, "--dry-run")...)
		check.That(t, code == exitUsage && regexp.MustCompile(`^ipcbench: `+test.want).MatchString(says) && strings.Count(says, "\n") <= 2,
			"%s: code %d: %s", test.name, code, says)
	}
	for _, transport := range []string{"http:tls=on", "http-shm:tls=on:network=tcp"} {
		_, says, code := in(t, dir, append(given(transport, "ca.crt", "server.crt", "server.key", ""), "--dry-run")...)
		check.That(t, code == 0, "%s with the server's files: code %d: %s", transport, code, says)
	}
}
