package link

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Address is the address of a server on the link. Traffic to it and traffic from it are
// limited separately. All other traffic is unlimited.
const Address = "127.0.0.2"

// MTU is the size of the largest packet of the link, as on a network with jumbo frames.
// With the loopback interface's default of 64 KiB, bursts would have to be larger than
// some models.
const MTU = 9000

// smallMTU is the MTU of links with a delay: that of the Internet, because losses, the first window
// of a connection, and the growth of windows are counted in packets.
const smallMTU = 1500

// Qdisc is the kernel's name of the queueing discipline that limits the rate.
const Qdisc = "htb"

const (
	server  = 0x7f000002 // Address
	root    = 1 << 16    // the handle of the HTB, 1:0
	quantum = 1 << 16    // bytes per turn of a class; without effect, as no class borrows
)

// ways are the two directions: class of the traffic, and offset of the address that
// selects it in the IPv4 header (destination, source).
var ways = []struct {
	class  uint32
	offset int32
}{{root | 0x10, 16}, {root | 0x20, 12}}

// A Count counts a link's packets in both directions since its rate was set.
type Count struct {
	Packets    int64 // packets sent
	Dropped    int64
	Overlimits int64         // how often the rate delayed a packet; 0 with a mirror
	Lost       int64         // packets dropped by the link's loss
	CPU        time.Duration // time that the mirror took of the processors; 0 without one
}

// An Error is the reason why links cannot be set up here (What), and a remedy (Fix).
type Error struct{ What, Fix string }

func (e *Error) Error() string { return e.What }

// Set sets the link's rate for packets sent from now on, and resets the counts. It fails
// unless this process is inside; see [Enter].
func Set(r Rate) error {
	switch {
	case !inside:
		return errors.New("link: this process has no network of its own")
	case state != nil:
		return state
	}
	if r.Impaired() {
		return errors.Join(shape(Rate{}), useMirror(r))
	}
	return errors.Join(shape(r), useMirror(Rate{}))
}

// Addresses returns the address at which the servers of a link listen, and the one at which
// workers reach them.
func (r Rate) Addresses() (listen, dial string) {
	if r.Impaired() {
		return mirrorListen, mirrorDial
	}
	return Address, Address
}

// shape has the kernel limit the loopback interface to r.
func shape(r Rate) error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("link: %w", err)
	}
	htb := netlink.NewHtb(netlink.QdiscAttrs{LinkIndex: lo.Attrs().Index, Handle: root, Parent: netlink.HANDLE_ROOT})
	if err := netlink.QdiscDel(htb); err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EINVAL) { // both: no rate is set
		return fmt.Errorf("link: remove the last rate: %w", err)
	}
	if !r.Shaped() {
		return nil
	}
	if err := netlink.QdiscAdd(htb); err != nil {
		return missing(err, "HTB (sch_htb), which a rate needs", "modprobe sch_htb, as root; or a kernel with CONFIG_NET_SCH_HTB")
	}
	for i, w := range ways {
		if err := r.shape(lo, w.class, w.offset, uint16(i+1)); err != nil {
			return err
		}
	}
	return nil
}

// shape limits one direction.
func (r Rate) shape(lo netlink.Link, class uint32, offset int32, priority uint16) error {
	index, bits, burst := lo.Attrs().Index, uint64(r.bits), uint32(r.Burst())
	attrs := netlink.ClassAttrs{LinkIndex: index, Parent: root, Handle: class}
	err := netlink.ClassAdd(netlink.NewHtbClass(attrs, netlink.HtbClassAttrs{
		Rate: bits, Ceil: bits, Buffer: burst, Cbuffer: burst, Quantum: quantum,
	}))
	if err != nil {
		return fmt.Errorf("link: a class of %v: %w", r, err)
	}
	err = netlink.FilterAdd(&netlink.U32{
		FilterAttrs: netlink.FilterAttrs{LinkIndex: index, Parent: root, Priority: priority, Protocol: unix.ETH_P_IP},
		ClassId:     class,
		Sel: &netlink.TcU32Sel{
			Flags: netlink.TC_U32_TERMINAL, Nkeys: 1,
			Keys: []netlink.TcU32Key{{Mask: 0xffffffff, Val: server, Off: offset}},
		},
	})
	if err != nil {
		return missing(err, "filters (cls_u32), which a rate needs", "modprobe cls_u32, as root; or a kernel with CONFIG_NET_CLS_U32")
	}
	return nil
}

// missing returns an [*Error] if err means that the kernel lacks a feature, or else err
// with context.
func missing(err error, what, mend string) error {
	if errors.Is(err, syscall.ENOENT) {
		return &Error{"this kernel has no " + what, mend}
	}
	return fmt.Errorf("link: %s: %w", what, err)
}

// Counts returns the counts since [Set], which are zero if it set no rate.
func Counts() (c Count, err error) {
	if !inside {
		return c, nil
	}
	using.Lock()
	defer using.Unlock()
	if current != nil {
		return current.counts()
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return c, fmt.Errorf("link: %w", err)
	}
	classes, err := netlink.ClassList(lo, netlink.HANDLE_NONE)
	if err != nil {
		return c, fmt.Errorf("link: count: %w", err)
	}
	for _, class := range classes {
		if s := class.Attrs().Statistics; s != nil && s.Basic != nil && s.Queue != nil {
			c.Packets += int64(s.Basic.Packets)
			c.Dropped += int64(s.Queue.Drops)
			c.Overlimits += int64(s.Queue.Overlimits)
		}
	}
	return c, nil
}

// ownAlias marks the loopback interface of a network of our own.
const ownAlias = "ipcbench"

// loopback starts lo, the loopback interface of a new network.
func loopback(lo netlink.Link) error {
	err := errors.Join(netlink.LinkSetAlias(lo, ownAlias), netlink.LinkSetMTU(lo, MTU), netlink.LinkSetUp(lo))
	if err == nil {
		err = equalize(lo, unix.RT_TABLE_LOCAL)
	}
	if err == nil {
		err = readBack(Address, Address)
	}
	if err != nil {
		return fmt.Errorf("link: the loopback interface: %w", err)
	}
	return nil
}
