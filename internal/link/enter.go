package link

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// The environment variable that marks a process started in namespaces, and its values.
const (
	markEnv = "_IPCBENCH_LINK"
	enter   = "enter"  // run the program
	try     = "try "   // prefix: set up these rates, report the outcome and exit
	users   = "users " // prefix of the others: there is also a user namespace
)

var (
	inside   bool  // this process was started in namespaces by Enter or Try
	ownUsers bool  // it also has a user namespace
	state    error // the error of setting up its network
)

// MaybeInside sets up the network of a process that [Enter] or [Try] has started. A
// process of Try ends here. It must be the first call in main and in TestMain.
func MaybeInside() {
	maybeMirror()
	outer, mark, _ := strings.Cut(os.Getenv(markEnv), " ")
	os.Unsetenv(markEnv) // child processes inherit the namespaces
	if !strings.HasPrefix(outer, "net:[") || mark == "" || outer == network() {
		return // not set, or by hand: the network of the host stays as it is
	}
	mark, ownUsers = strings.CutPrefix(mark, users)
	inside, state = true, up()
	rates, trying := strings.CutPrefix(mark, try)
	if !trying {
		return
	}
	for text := range strings.SplitSeq(rates, ",") {
		r, err := Parse(text)
		if err == nil {
			err = Set(r)
		}
		if refused := (*Error)(nil); errors.As(err, &refused) {
			fmt.Fprintln(os.Stderr, refused.What+"\n"+refused.Fix)
		} else if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		if err != nil {
			os.Exit(1)
		}
	}
	os.Exit(0)
}

// network identifies the network namespace of this process.
func network() string {
	name, _ := os.Readlink("/proc/self/ns/net") // without /proc, nothing can be started
	return name
}

// Inside reports whether this process has its own network, so that [Set] can be used.
func Inside() bool { return inside }

// Namespaces returns the kinds of namespaces that this process has of its own: "none",
// "network" or "users, network".
func Namespaces() string {
	switch {
	case !inside:
		return "none"
	case ownUsers:
		return "users, network"
	}
	return "network"
}

// Try returns an error if links of these rates cannot be set up here. It is an [*Error] if
// a remedy is known.
func Try(rates ...Rate) error {
	var texts []string
	for _, r := range rates {
		texts = append(texts, r.String())
	}
	if len(texts) == 0 {
		texts = []string{Rate{bits: 100e6}.String()}
	}
	runtime.LockOSThread() // Pdeathsig would kill the child if this thread ended
	defer runtime.UnlockOSThread()
	var said bytes.Buffer
	c, err := start(try+strings.Join(texts, ","), nil, func(c *exec.Cmd) { c.Stderr = &said })
	if err != nil {
		return err
	}
	if err = c.Wait(); err == nil {
		return nil
	}
	if what, mend, ok := strings.Cut(strings.TrimSpace(said.String()), "\n"); ok {
		return &Error{what, mend}
	}
	return fmt.Errorf("link: %w: %s", err, said.Bytes())
}

// Enter runs this program as a child in its own namespaces, with the same arguments, and
// returns its exit code when it has ended. The child stays in this process group, so it
// can use the terminal. Enter forwards signals sent only to this process, and the child
// dies with this process. The child's user and group are the same; its only additional
// right is to configure its own network.
func Enter() (code int, err error) {
	runtime.LockOSThread() // as in Try
	defer runtime.UnlockOSThread()
	signals := make(chan os.Signal, 8)
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	defer signal.Stop(signals)
	c, err := start(enter, os.Args[1:], func(c *exec.Cmd) {
		c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	})
	if err != nil {
		return 0, err
	}
	ended := make(chan struct{})
	go func() {
		for {
			select {
			case s := <-signals:
				_ = c.Process.Signal(s)
			case <-ended:
				return
			}
		}
	}()
	err = c.Wait()
	close(ended)
	status, ok := c.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case ok && status.Signaled():
		return 128 + int(status.Signal()), nil
	case errors.As(err, new(*exec.ExitError)):
		return c.ProcessState.ExitCode(), nil
	}
	return 0, err
}

// start starts this program in its own namespaces. Root tries without a user namespace
// first, because in one it cannot open other users' files. In a container this may fail.
func start(mark string, args []string, attach func(*exec.Cmd)) (c *exec.Cmd, err error) {
	if os.Getenv(markEnv) != "" { // it would start itself endlessly
		return nil, errors.New("link: this process is already inside, but its main does not begin with link.MaybeInside()")
	}
	for _, prefix := range []string{"", users} {
		if prefix == "" && os.Geteuid() != 0 {
			continue
		}
		c = exec.Command("/proc/self/exe", args...)
		c.Args[0] = os.Args[0]
		c.Env = append(os.Environ(), markEnv+"="+network()+" "+prefix+mark)
		c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
		if prefix == users {
			c.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
			c.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
			c.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
			c.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_NET_ADMIN} // without this, exec drops it unless the user is root
		}
		attach(c)
		if err = c.Start(); err == nil {
			return c, nil
		}
	}
	if cause := errors.Unwrap(err); cause != nil { // without the program's path
		err = cause
	}
	return nil, &Error{fmt.Sprintf("a process cannot get its own user and network namespaces: %v", err), whyNot()}
}

// whyNot returns the remedy if namespaces are forbidden.
func whyNot() string {
	for _, s := range []struct{ name, bad, good string }{
		{"user.max_user_namespaces", "0", "1000"},
		{"user.max_net_namespaces", "0", "1000"},
		{"kernel.unprivileged_userns_clone", "0", "1"},
		{"kernel.apparmor_restrict_unprivileged_userns", "1", "0"},
	} {
		text, err := os.ReadFile("/proc/sys/" + strings.ReplaceAll(s.name, ".", "/"))
		if err == nil && strings.TrimSpace(string(text)) == s.bad {
			return fmt.Sprintf("sysctl %s=%s, as root; or run it as root", s.name, s.good)
		}
	}
	return "no sysctl forbids it, so a container or sandbox probably does: use docker run --privileged, or run it outside as root"
}
