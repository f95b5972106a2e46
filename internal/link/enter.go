package link

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"ipcbench/internal/reexec"
)

// An entry is the question of a process that was started in namespaces.
type entry struct {
	Users bool   // there is also a user namespace
	Rates []Rate // set up these and report the outcome; if nil, go on with main
}

var (
	inside   bool  // this process was started in namespaces by Enter or Try
	ownUsers bool  // it also has a user namespace
	state    error // the error of setting up its network
)

// SetUp is the role of a process that [Enter] or [Try] has started: it sets up the network of
// its namespaces.
func SetUp(question []byte) (answer any, err error) {
	var e entry
	if err := json.Unmarshal(question, &e); err != nil {
		return nil, err
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil || lo.Attrs().Flags&net.FlagUp != 0 { // a namespace is new, whatever the question says
		return nil, errors.Join(errNotOwn, err)
	}
	inside, ownUsers = true, e.Users
	state = loopback(lo)
	if e.Rates == nil {
		return nil, reexec.ErrProceed
	}
	for _, r := range e.Rates {
		err := Set(r)
		if refused := (*Error)(nil); errors.As(err, &refused) {
			return refused, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// errNotOwn is the error of a role that was asked for by hand, in an environment variable.
var errNotOwn = errors.New("link: this is not a network of ipcbench's own: it stays as it is")

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
	if len(rates) == 0 {
		rates = []Rate{{bits: 100e6}}
	}
	child, err := start(reexec.Call, entry{Rates: rates}, reexec.Command{})
	if err != nil {
		return err
	}
	var refused *Error
	if err := child.Answer(&refused); err != nil || refused == nil {
		return err
	}
	return refused
}

// Enter runs this program as a child in its own namespaces, with the same arguments, and
// returns its exit code when it has ended. The child stays in this process group, so it
// can use the terminal. Enter forwards signals sent only to this process, and the child
// dies with this process. The child's user and group are the same; its only additional
// right is to configure its own network.
func Enter() (code int, err error) {
	signals := make(chan os.Signal, 8)
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	defer signal.Stop(signals)
	c := reexec.Command{Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	child, err := start(reexec.Start, entry{}, c)
	if err != nil {
		return 0, err
	}
	for {
		select {
		case s := <-signals:
			_ = child.Signal(s)
		case <-child.Exited():
			return child.Code(), nil
		}
	}
}

// start calls by to start c, this program, in its own namespaces. Root tries without a user
// namespace first, because in one it cannot open other users' files. In a container this may
// fail.
func start[P any](by func(context.Context, reexec.Command) (P, error), e entry, c reexec.Command) (child P, err error) {
	for _, e.Users = range []bool{false, true} {
		if !e.Users && os.Geteuid() != 0 {
			continue
		}
		c.Role, c.Question, c.Attr = reexec.Links, e, &unix.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}
		if e.Users {
			c.Attr.Cloneflags |= unix.CLONE_NEWUSER
			c.Attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
			c.Attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
			c.Attr.AmbientCaps = []uintptr{unix.CAP_NET_ADMIN} // without this, exec drops it unless the user is root
		}
		if child, err = by(context.Background(), c); err == nil {
			return child, nil
		}
	}
	if cause := errors.Unwrap(err); cause != nil { // without the program's path
		err = cause
	}
	return child, &Error{fmt.Sprintf("a process cannot get its own user and network namespaces: %v", err), whyNot()}
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
