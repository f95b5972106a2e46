package link

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Address is that of a server on the link. What goes there has one class of the
// traffic, and what comes from there the other; all else is in none, and unlimited.
const Address = "127.0.0.2"

// MTU is that of the link, as on a network for large frames. With the 64 KiB of a
// loopback interface a burst would have to be larger than what it is to be small
// beside.
const MTU = 9000

// Qdisc is what the kernel calls the queues that keep a rate.
const Qdisc = "htb"

const (
	loopback = "lo"
	server   = 0x7f000002 // Address
	root     = 1 << 16    // the handle of the HTB, 1:0
	quantum  = 1 << 16    // that classes would take turns by, if one borrowed from another
)

// ways are the two classes, by where a header of IPv4 has the address.
var ways = []struct {
	class  uint32
	offset int32
}{{root | 0x10, 16}, {root | 0x20, 12}}

// A Count is what has happened to a link's packets since its rate was set.
type Count struct {
	Packets    int64 // that were sent, both ways
	Dropped    int64
	Overlimits int64 // how often one had to wait for its turn
}

// An Error is why there can be no link here, and what to try.
type Error struct{ What, Mend string }

func (e *Error) Error() string { return e.What }

// Set gives the link that rate, for what is sent from now on, and begins to count.
// It is for a process inside; see [Enter].
func Set(r Rate) error {
	switch {
	case !inside:
		return errors.New("link: this process has no network of its own")
	case state != nil:
		return state
	}
	lo, err := netlink.LinkByName(loopback)
	if err != nil {
		return fmt.Errorf("link: %w", err)
	}
	htb := netlink.NewHtb(netlink.QdiscAttrs{LinkIndex: lo.Attrs().Index, Handle: root, Parent: netlink.HANDLE_ROOT})
	if err := netlink.QdiscDel(htb); err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EINVAL) { // the interface has none yet
		return fmt.Errorf("link: take the last rate away: %w", err)
	}
	if !r.Shaped() {
		return nil
	}
	if err := netlink.QdiscAdd(htb); err != nil {
		return missing(err, "HTB (sch_htb), which a rate takes", "modprobe sch_htb, as root; or a kernel with CONFIG_NET_SCH_HTB")
	}
	for i, w := range ways {
		if err := r.shape(lo, w.class, w.offset, uint16(i+1)); err != nil {
			return err
		}
	}
	return nil
}

// shape limits one way.
func (r Rate) shape(lo netlink.Link, class uint32, offset int32, priority uint16) error {
	index := lo.Attrs().Index
	attrs := netlink.ClassAttrs{LinkIndex: index, Parent: root, Handle: class}
	bits, burst := uint64(r.bits), uint32(r.Burst())
	err := netlink.ClassAdd(netlink.NewHtbClass(attrs, netlink.HtbClassAttrs{Rate: bits, Ceil: bits, Buffer: burst, Cbuffer: burst, Quantum: quantum}))
	if err != nil {
		return fmt.Errorf("link: a class of %v: %w", r, err)
	}
	if r.delay > 0 {
		_, minor := netlink.MajorMinor(class)
		under := netlink.QdiscAttrs{LinkIndex: index, Parent: class, Handle: netlink.MakeHandle(minor, 0)}
		err := netlink.QdiscAdd(netlink.NewNetem(under, netlink.NetemQdiscAttrs{Latency: uint32(r.delay.Microseconds()), Limit: r.onTheWay()}))
		if err != nil {
			return missing(err, "netem (sch_netem), which a delay takes", "leave the delay out: "+Rate{bits: r.bits}.String()+"; or modprobe sch_netem, as root")
		}
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
		return missing(err, "filters (cls_u32), which a rate takes", "modprobe cls_u32, as root; or a kernel with CONFIG_NET_CLS_U32")
	}
	return nil
}

// onTheWay returns how many packets a delay has room for, if all are small.
func (r Rate) onTheWay() uint32 {
	return uint32(1000 + float64(r.bits)/8/500*r.delay.Seconds())
}

// missing says what the kernel lacks, if that is why.
func missing(err error, what, mend string) error {
	if errors.Is(err, syscall.ENOENT) {
		return &Error{"this kernel has no " + what, mend}
	}
	return fmt.Errorf("link: %s: %w", what, err)
}

// Counts returns what has happened since [Set]: nothing, where it set no rate.
func Counts() (c Count, err error) {
	if !inside {
		return c, nil
	}
	lo, err := netlink.LinkByName(loopback)
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

// up makes the loopback interface one that carries the link.
func up() error {
	lo, err := netlink.LinkByName(loopback)
	if err == nil {
		err = errors.Join(netlink.LinkSetMTU(lo, MTU), netlink.LinkSetUp(lo))
	}
	if err != nil {
		return fmt.Errorf("link: the loopback interface: %w", err)
	}
	return nil
}
