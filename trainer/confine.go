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

// NewConfined returns the launcher of worker processes for a server on another host,
// which this host's user trusts with computing time and memory, and with nothing else.
// They dial TCP addresses alone, and open no file that the server names but below dirs.
func NewConfined(dirs []string) Launcher {
	return processes{confined: append(driver.Folders{}, dirs...)}
}

// confinedEnv marks a confined worker. It has the folders that are allowed, as JSON.
const confinedEnv = "_IPCBENCH_CONFINED"

// confinement returns what the environment of a worker process has besides.
func confinement(f driver.Folders) []string {
	if f == nil {
		return nil
	}
	dirs, err := json.Marshal(f)
	if err != nil {
		panic(err) // texts have a form in JSON
	}
	return []string{confinedEnv + "=" + string(dirs)}
}

// confine takes the mark of a confined worker from the environment.
func (h *Host) confine() error {
	dirs, ok := os.LookupEnv(confinedEnv)
	if !ok {
		return nil
	}
	_ = os.Unsetenv(confinedEnv) // the name is a good one
	var allowed []string
	if err := json.Unmarshal([]byte(dirs), &allowed); err != nil {
		return fmt.Errorf("trainer: %s=%q: want a list of folders: %w", confinedEnv, dirs, err)
	}
	h.confined = append(driver.Folders{}, allowed...) // never nil
	return nil
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
		if _, _, err := h.confined.Find(a.Settings[s.Name]); err != nil {
			return fmt.Errorf(refused+"%s: %w", s.Name, err)
		}
	}
	if a.Trust.Files != nil {
		return errors.New(refused + "certificates in files that the server names")
	}
	at, ok := strings.CutPrefix(a.Addr, "tcp:")
	if addr, err := netip.ParseAddrPort(at); !ok || err != nil || !addr.IsValid() {
		return fmt.Errorf(refused+"address %.80q: want tcp:IP:PORT", a.Addr)
	}
	return nil
}
