package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"ipcbench/bench/result"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
)

// imageUser is the user of the Containerfile.
const imageUser = 65532

// image builds the image with make in a store of its own. It returns the environment of buildah and a container.
func image(t *testing.T) (env []string, container string) {
	t.Helper()
	for _, tool := range []string{"buildah", "make"} {
		if _, err := exec.LookPath(tool); err != nil {
			skip.Missing(t, "%s (Debian: %[1]s)", tool)
		}
	}
	if out, err := exec.CommandContext(t.Context(), "unshare", "--mount", "true").CombinedOutput(); err != nil {
		skip.Refused(t, "a mount namespace: %v: %s", err, out)
	}
	dir := t.TempDir()
	conf := filepath.Join(dir, "storage.conf")
	check.Must(t, os.WriteFile(conf, []byte("[storage]\ndriver = \"vfs\"\ngraphroot = \""+dir+"/store\"\nrunroot = \""+dir+"/run\"\n"), 0o600))
	env = append(os.Environ(), "CONTAINERS_STORAGE_CONF="+conf, "BUILDAH_ISOLATION=chroot")
	contained(t, env, 0, `make -s -C ../.. image IMAGE=localhost/ipcbench-test`)
	return env, strings.TrimSpace(contained(t, env, 0, `buildah from --pull-never localhost/ipcbench-test`))
}

// contained runs a script with its arguments in its own mount namespace, checks its exit code unless that is -1, and
// returns its output.
func contained(t *testing.T, env []string, code int, script string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "unshare", append([]string{"--mount", "sh", "-euc", script, "sh"}, args...)...)
	var stdout, stderr strings.Builder
	cmd.Env, cmd.Stdout, cmd.Stderr = env, &stdout, &stderr
	err := cmd.Run()
	check.Need(t, cmd.ProcessState != nil && (code < 0 || cmd.ProcessState.ExitCode() == code), "%s %q: %v, want exit code %d:\n%s%s", script, args, err, code, &stdout, &stderr)
	return stdout.String() + stderr.String()
}

// TestContainer: in the image, the program measures as the image's user, with the 64 MB of shared memory that a
// container has and without any. The doctor and a run name the remedies.
func TestContainer(t *testing.T) {
	skip.Long(t)
	env, container := image(t)
	root := strings.TrimSpace(contained(t, env, 0, `buildah mount "$1"`, container))
	scripts := map[string]string{
		"64 MB": `mount -t tmpfs -o size=64m,mode=1777 tmpfs /dev/shm; c=$1; shift; exec buildah run "$c" -- /ipcbench "$@"`,
		"none": `r=$(buildah mount "$1"); shift; mkdir -p $r/proc $r/dev; mount -t proc proc $r/proc; mount -t tmpfs tmpfs $r/dev
			mknod -m 666 $r/dev/null c 1 3; exec chroot --userspec=65532:65532 $r /ipcbench "$@"`,
	}
	for _, tt := range []struct{ shm, dir, what, skipped string }{
		{"64 MB", "", "64 MiB free, and shm-tensor", ""},
		{"none", "/tmp/", "cannot be used: stat /dev/shm: no such file", "no such file or directory: mount a writable tmpfs there (in a container: docker run --shm-size="},
	} {
		t.Run(tt.shm, func(t *testing.T) {
			ipcbench := func(code int, args ...string) string {
				t.Helper()
				return contained(t, env, code, scripts[tt.shm], append([]string{container}, args...)...)
			}
			out := strings.Join(strings.Fields(ipcbench(1, "doctor")), " ") // lines are wrapped
			for _, want := range []string{"fail /dev/shm " + tt.what, "A container has 64 MB by default", "docker run --shm-size=255m; in Kubernetes: an emptyDir"} {
				check.That(t, strings.Contains(out, want), "the doctor does not say %q:\n%s", want, out)
			}
			name := strings.ReplaceAll(tt.shm, " ", "") + ".json"
			ipcbench(0, "run", "--model", "cnn", "--transport", "shm-slab,http,shm-tensor", "--workers", "1", "--clients", "1", "--rounds", "2", "--blocks", "1", "--out", tt.dir+name)
			made(t, filepath.Join(root, "tmp", name), tt.skipped)
			out = ipcbench(2, "run", "--model", "uniform:64MiB/4", "--transport", "shm-tensor")
			check.That(t, strings.Contains(out, "--shm-size="), "no remedy: %s", out)
		})
	}
}

// made checks that a result is of the image's user and has proved cells, and that shm-tensor was skipped for this
// reason, or also measured if it is empty.
func made(t *testing.T, path, skipped string) {
	t.Helper()
	owner := check.Value(os.Stat(path))(t).Sys().(*syscall.Stat_t).Uid
	check.Equal(t, owner, imageUser, "owner of", path)
	r := check.Value(result.ReadFile(path))(t)
	names := []string{"shm-slab", "http"}
	if skipped == "" {
		names = append(names, "shm-tensor")
	} else {
		check.That(t, len(r.Skipped) == 1 && strings.Contains(r.Skipped[0].Why, skipped), "skipped: %+v", r.Skipped)
	}
	for _, name := range names {
		check.That(t, cell(t, r, name).Proved(), "%s is not proved", name)
	}
}
