package trainer

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strings"

	"ipcbench/internal/reexec"
	"ipcbench/transports"
	"ipcbench/transports/driver"
)

// A Confinement restricts a worker process whose server is on another host. This host's user
// grants that server computing time and memory, and nothing else. The process opens a file
// that the server names only if it is below Dirs, and dials only the server's host, with
// mutual TLS.
type Confinement struct {
	Dirs     driver.Folders `json:"dirs"`
	Server   netip.Addr     `json:"server"`             // address at which the server was reached
	Insecure bool           `json:"insecure,omitempty"` // allows connections without mutual TLS, except on the loopback interface
}

// NewConfined returns a launcher of worker processes that are restricted by c.
func NewConfined(c Confinement) Launcher {
	c.Dirs = append(driver.Folders{}, c.Dirs...) // nil would allow every directory
	return processes{"processes", reexec.Command{Role: reexec.Worker, Question: c}, nil}
}

// CheckAddr returns an error if a server must not have this host dial the address IP:PORT.
// Only c.Server is allowed, because services of this host and its network may trust every
// peer that can reach them.
func (c Confinement) CheckAddr(text string) error {
	addr, err := netip.ParseAddrPort(text)
	if err != nil {
		return fmt.Errorf("address %.80q must be IP:PORT", text)
	}
	if addr.Addr().Unmap() != c.Server.Unmap() {
		return fmt.Errorf("address %v must be on the server's host, which was reached at %v", addr, c.Server)
	}
	return nil
}

// secretForm is the form of a session's secret, which [crypto/rand.Text] makes.
var secretForm = regexp.MustCompile(`^[A-Z2-7]{26}$`)

// admit returns an error if the confinement does not allow the assignment.
func (c Confinement) admit(a *assignment, t driver.Transport) error {
	given := driver.Settings{} // the settings to check; other transports may have more, such as a canary
	for _, s := range transports.Settings(t) {
		if value, ok := a.Settings[s.Name]; ok {
			given[s.Name] = value
		}
	}
	v, err := transports.NewVariant(t, given)
	if err != nil {
		return err
	}
	if v.Traits().Reach != driver.Network {
		return fmt.Errorf("%s shares memory or files of one host", v)
	}
	for _, s := range t.Settings() {
		if s.Kind != driver.Path {
			continue
		}
		if _, _, err := c.Dirs.Find(a.Settings[s.Name]); err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	switch {
	case a.Trust.Files != nil:
		return errors.New("certificates in files that the server names")
	case !secretForm.MatchString(a.Secret): // services of other protocols must not read it as a command
		return errors.New("the session's secret must be 26 characters of A-Z and 2-7")
	case v.Settings["tls"] == "mutual" && a.Trust.Mutual && len(a.Trust.Authority) > 0:
	case c.Server.Unmap().IsLoopback():
		return errors.New("on the loopback interface, other services could be reached without TLS: set tls=mutual")
	case !c.Insecure:
		return errors.New("it requires tls=mutual, unless ipcbench agent is started with --insecure-network")
	}
	at, ok := strings.CutPrefix(a.Addr, "tcp:")
	if !ok {
		return fmt.Errorf("address %.80q must be tcp:IP:PORT", a.Addr)
	}
	return c.CheckAddr(at)
}
