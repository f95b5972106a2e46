package session

import (
	"fmt"
	"slices"
	"time"

	"ipcbench/bench/floors"
	"ipcbench/internal/link"
	"ipcbench/transports"
)

// Linked reports whether the cell has a link.
func (s Spec) Linked() bool { return s.Link != link.Rate{} }

// Links returns the distinct rates of the cells' links.
func Links(cells []Spec) (all []link.Rate) {
	for _, s := range cells {
		if s.Linked() && !slices.Contains(all, s.Link) {
			all = append(all, s.Link)
		}
	}
	return all
}

// Networked reports whether tensors of v can travel over a network. They cannot if they
// are in memory shared by its processes, even if messages use a network.
func Networked(v transports.Variant) bool {
	return v.Settings["network"] != "" && v.Settings["shm"] != "on"
}

// checkLink returns an error if s has a link, but does not send its tensors over TCP.
func (s Spec) checkLink() error {
	if s.Linked() && (!Networked(s.Variant) || s.Variant.Settings["network"] != "tcp") {
		return fmt.Errorf("--link %v: %s sends no tensors over TCP: set network=tcp, without shared memory",
			s.Link, s.Variant)
	}
	return nil
}

// LargestWay returns the payload of the model or of an update, whichever is larger.
func (s Spec) LargestWay() int64 {
	return int64(max(s.Model.Layout.Payload(), s.Update().Layout.Payload()))
}

// overLink estimates how long the link needs for the bytes of a round. With several
// workers, downlink and uplink overlap partly.
func (s Spec) overLink() time.Duration {
	down, up := s.Link.Take(int64(s.Model.Layout.Payload())), s.Link.Take(int64(s.Update().Layout.Payload()))
	return time.Duration(s.Clients) * (max(down, up) + min(down, up)/time.Duration(s.Workers))
}

// Rounds longer than slowRound are dominated by the link's rate, so that they hardly
// differ, and the first two rounds are enough warm-up.
const slowRound = 500 * time.Millisecond

// Within reports whether f limits the tensors of s: they travel over such a connection.
// away means that workers are on another host, where no memory is shared.
func (s Spec) Within(f floors.Floor, away bool) bool {
	settings := s.Variant.Settings
	tls := settings["tls"] != "" && settings["tls"] != "off"
	return (Networked(s.Variant) || away) && settings["network"] == "tcp" && (tls || !f.TLS)
}
