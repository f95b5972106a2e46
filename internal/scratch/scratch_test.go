package scratch

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"ipcbench/internal/reexec"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/internal/test/waiting"
)

func TestMain(m *testing.M) {
	reexec.Main(reexec.Roles{"owner": own})
	os.Exit(m.Run())
}

// own is the role of a process that owns a directory and waits to be killed.
func own(question []byte) (any, error) {
	var root string
	err := json.Unmarshal(question, &root)
	if err == nil {
		var d *Dir
		if d, err = New(root); err == nil {
			fmt.Println(d.Path())
			waiting.Forever()
		}
	}
	return nil, err
}

// shortRoot returns a temporary directory whose path leaves room for sockets.
func shortRoot(t *testing.T) string {
	t.Helper()
	dir := check.Value(os.MkdirTemp("", "scratch"))(t)
	t.Cleanup(func() { check.Must(t, os.RemoveAll(dir)) })
	return dir
}

func leftovers(t *testing.T, root string) []Leftover {
	t.Helper()
	return check.Value(Leftovers(root))(t)
}

func noLeftovers(t *testing.T, root string) {
	t.Helper()
	check.Equal(t, leftovers(t, root), nil, "leftovers")
}

// empty checks that a directory has no files.
func empty(t *testing.T, dir string) {
	t.Helper()
	check.Equal(t, check.Value(os.ReadDir(dir))(t), []os.DirEntry{})
}

func TestDir(t *testing.T) {
	root := shortRoot(t)
	d := check.Value(New(root))(t)
	check.Equal(t, check.Value(os.Stat(d.Path()))(t).Mode().Perm(), 0o700)
	check.Must(t, os.WriteFile(filepath.Join(d.Path(), "segment"), make([]byte, 100), 0o600))
	noLeftovers(t, root)
	check.Must(t, d.Close())
	check.Must(t, d.Close())
	check.Is(t, check.Err(os.Stat(d.Path())), fs.ErrNotExist)
}

// owned starts a process that owns a directory under root, as another user if cred is not
// nil.
func owned(t *testing.T, root string, cred *syscall.Credential) (*reexec.Process, string) {
	t.Helper()
	from, to, err := os.Pipe()
	check.Must(t, err)
	defer from.Close()
	c := reexec.Command{Role: "owner", Question: root, Stdout: to, Attr: &syscall.SysProcAttr{Credential: cred}}
	if cred != nil {
		c.Path, c.Dir = filepath.Join(root, "program"), root // a place that the other user can reach
		program := check.Value(os.ReadFile(os.Args[0]))(t)
		check.Must(t, os.WriteFile(c.Path, program, 0o755))
		check.Must(t, os.Chmod(c.Path, 0o755)) // independent of the umask
	}
	p, err := reexec.Start(t.Context(), c)
	to.Close()
	if cred != nil && (errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.EPERM)) { // a user namespace that has only root
		skip.Refused(t, "another user: %v", err)
	}
	check.Must(t, err)
	t.Cleanup(func() { kill(t, p) })
	line := check.Value(bufio.NewReader(from).ReadString('\n'))(t)
	return p, strings.TrimSpace(line)
}

func kill(t *testing.T, p *reexec.Process) {
	t.Helper()
	_ = p.Signal(syscall.SIGKILL) // fails if it has ended
	<-p.Exited()
}

// TestCloseAgainstWriters: Close removes a directory while files are created in it, and
// their writer gets an error.
func TestCloseAgainstWriters(t *testing.T) {
	root := shortRoot(t)
	for range 50 {
		d := check.Value(New(root))(t)
		started, ended := make(chan struct{}), make(chan error, 1)
		go func() {
			for i := 0; ; i++ {
				if err := os.WriteFile(filepath.Join(d.Path(), strconv.Itoa(i)), nil, 0o600); err != nil {
					ended <- err
					return
				}
				if i == 10 {
					close(started)
				}
			}
		}()
		<-started
		check.Must(t, d.Close())
		check.Is(t, <-ended, fs.ErrNotExist, "the writer")
		empty(t, root)
	}
}

// TestKilled: A23, A28: the leftovers of a killed owner are found and removed, and the
// directory of a live one is untouched.
func TestKilled(t *testing.T) {
	root := shortRoot(t)
	alive := check.Value(New(root))(t)
	defer alive.Close()

	p, path := owned(t, root, nil)
	noLeftovers(t, root)
	check.Fails(t, (Leftover{Path: path}).Remove(), "in use", "removal of a directory in use")
	kill(t, p)

	left := leftovers(t, root)
	if len(left) != 1 || left[0].Path != path || left[0].PID != p.PID() || left[0].Parent != os.Getpid() ||
		!strings.Contains(left[0].Owner, fmt.Sprint("pid ", p.PID())) {
		t.Fatalf("got leftovers %+v, want %s", left, path)
	}
	check.Must(t, left[0].Remove())
	noLeftovers(t, root)
	check.OK(t, check.Err(os.Stat(alive.Path())), "the living owner's directory")
}

// TestConcurrent: A24: concurrent calls of New make different directories, and none of them
// is taken for a leftover, even while it is made or removed.
func TestConcurrent(t *testing.T) {
	root := shortRoot(t)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for range 20 {
				d, err := New(root)
				if err != nil {
					t.Error(err)
					return
				}
				left, err := Leftovers(root)
				check.That(t, err == nil && len(left) == 0, "got leftovers %v, error %v", left, err)
				check.OK(t, d.Close())
			}
		})
	}
	wg.Wait()
}

// TestLongRoot: a directory may have a path that is too long for sockets, and a root may be
// relative or missing.
func TestLongRoot(t *testing.T) {
	root := filepath.Join(shortRoot(t), strings.Repeat("x", 100))
	check.Must(t, os.Mkdir(root, 0o700))
	check.Fails(t, Try(root), "TMPDIR")
	d := check.Value(New(root))(t) // for files
	check.OK(t, d.Close())
	t.Chdir(root)
	d = check.Value(New("."))(t)
	check.Equal(t, filepath.Dir(d.Path()), root, "the absolute path of the root")
	check.OK(t, d.Close())
	missing := filepath.Join(root, "missing")
	check.Is(t, check.Err(New(missing)), fs.ErrNotExist)
	noLeftovers(t, missing)
}

// TestLastDescriptor: a directory is made and removed with one descriptor, and its lock
// names the kernel.
func TestLastDescriptor(t *testing.T) {
	root := shortRoot(t)
	var before unix.Rlimit
	check.Must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &before))
	check.Must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 64, Max: before.Max}))
	defer func() { check.Must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &before)) }()
	var all []*os.File
	for {
		f, err := os.Open("/dev/null")
		if err != nil {
			break
		}
		defer f.Close()
		all = append(all, f)
	}
	check.Must(t, all[0].Close())
	d := check.Value(New(root))(t)
	var text [mostOwner]byte
	n, err := d.lock.ReadAt(text[:], 0)
	check.That(t, !strings.Contains(string(text[:n]), "unknown"), "%s, %v", text[:n], err)
	check.OK(t, d.Close())
	empty(t, root)
}
