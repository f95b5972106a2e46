package trainer

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"

	"ipcbench/transports"
	"ipcbench/transports/driver"
)

// A Confinement is what a worker process does for a server on another host, which this
// host's user trusts with computing time and memory, and with nothing else: it opens no
// file that the server names but below Dirs, and dials TCP addresses alone.
type Confinement struct {
	Dirs   driver.Folders `json:"dirs"`
	Server netip.Addr     `json:"server"` // where the server was reached
}

// NewConfined returns the launcher of worker processes that do no more than c allows.
func NewConfined(c Confinement) Launcher {
	c.Dirs = append(driver.Folders{}, c.Dirs...) // nil would be anywhere
	return processes{name: "processes", confined: &c}
}

// CheckAddr reports what a server may not have this host dial. What listens for this host
// alone trusts who is on it, and so does what hosts find at an address of one link.
func (c Confinement) CheckAddr(text string) error {
	addr, err := netip.ParseAddrPort(text)
	if err != nil {
		return fmt.Errorf("address %.80q: want IP:PORT", text)
	}
	if ip := addr.Addr().Unmap(); ip != c.Server.Unmap() && !ip.IsGlobalUnicast() {
		return fmt.Errorf("address %v is of one host or link alone, and the server was reached at %v", addr, c.Server)
	}
	return nil
}

// confinedEnv marks a confined worker. It has the confinement, as JSON.
const confinedEnv = "_IPCBENCH_CONFINED"

// env returns what the environment of a worker process has besides.
func (c *Confinement) env() []string {
	if c == nil {
		return nil
	}
	text, err := json.Marshal(c)
	if err != nil {
		panic(err) // texts and addresses have a form in JSON
	}
	return []string{confinedEnv + "=" + string(text)}
}

// confine takes the mark of a confined worker from the environment.
func (h *Host) confine() error {
	text, ok := os.LookupEnv(confinedEnv)
	if !ok {
		return nil
	}
	_ = os.Unsetenv(confinedEnv) // the name is a good one
	h.confined = &Confinement{}
	if err := json.Unmarshal([]byte(text), h.confined); err != nil || h.confined.Dirs == nil {
		return fmt.Errorf("trainer: %s=%q: want a confinement: %w", confinedEnv, text, err)
	}
	return nil
}

// folders are those below which the process opens files; nil is anywhere.
func (h Host) folders() driver.Folders {
	if h.confined == nil {
		return nil
	}
	return h.confined.Dirs
}

// admit reports what a confined worker does not do for its server.
func (h Host) admit(a *assignment, t driver.Transport) error {
	if h.confined == nil {
		return nil
	}
	const refused = "refused by the agent's host: "
	given := driver.Settings{} // that are checked; a transport may have more, as that of a canary
	for _, s := range transports.Settings(t) {
		if value, ok := a.Settings[s.Name]; ok {
			given[s.Name] = value
		}
	}
	v, err := transports.NewVariant(t, given)
	if err != nil {
		return fmt.Errorf(refused+"%w", err)
	}
	if v.Traits().Reach != driver.Network {
		return fmt.Errorf(refused+"%s shares memory or files of one host", v)
	}
	for _, s := range t.Settings() {
		if s.Kind != driver.Path {
			continue
		}
		if _, _, err := h.confined.Dirs.Find(a.Settings[s.Name]); err != nil {
			return fmt.Errorf(refused+"%s: %w", s.Name, err)
		}
	}
	if a.Trust.Files != nil {
		return errors.New(refused + "certificates in files that the server names")
	}
	at, ok := strings.CutPrefix(a.Addr, "tcp:")
	if !ok {
		return fmt.Errorf(refused+"address %.80q: want tcp:IP:PORT", a.Addr)
	}
	if err := h.confined.CheckAddr(at); err != nil {
		return fmt.Errorf(refused+"%w", err)
	}
	return nil
}
