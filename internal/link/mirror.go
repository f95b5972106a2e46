package link

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"ipcbench/internal/reexec"
)

// A mirror is a process that makes a link with a delay. It owns a TUN device with the address
// [mirrorListen]. What a process sends to [mirrorDial] leaves through the device. The mirror holds
// each packet, swaps its source and destination, and writes it back: for the kernel, it is a packet
// from mirrorDial to mirrorListen. Swapping keeps all checksums valid. So connections, windows and
// the reaction to loss are the kernel's own. The kernel's netem does not replace it: on a loopback
// interface, netem drops whole segments of up to 64 KiB, so a loss of packets would be another one.
const (
	mirrorDevice = "ipcbench0"
	mirrorListen = "10.9.0.1"
	mirrorDial   = "10.9.0.2"
	tunFile      = "/dev/net/tun"
)

// mostQueued limits the queue of a direction: it is the time that the rate needs for the queue.
const mostQueued = 100 * time.Millisecond

// A frame holds a packet.
type frame [smallMTU]byte

// A packet is in the queue of a direction.
type packet struct {
	at time.Time // of its delivery
	*frame
	size int
}

// A direction carries packets one way.
type direction struct {
	queue chan packet
	free  time.Time // when the rate has sent all packets in the queue
}

// Hold is the role of a mirror for the rate in the question. It ends when its starter closes the
// control socket.
func Hold(question []byte) (answer any, err error) {
	var r Rate
	if err := json.Unmarshal(question, &r); err != nil {
		return nil, err
	}
	if lo, err := netlink.LinkByName("lo"); err != nil || lo.Attrs().Alias != ownAlias {
		return nil, errors.Join(errNotOwn, err)
	}
	tun, err := openTUN()
	if err != nil {
		return nil, err
	}
	var m mirror
	m.buffers.New = func() any { return new(frame) }
	for i := range m.ways {
		m.ways[i].queue = make(chan packet, 1<<16)
		go m.deliver(tun, &m.ways[i])
	}
	go func() { m.failed.Store(m.read(tun, r)) }()
	control, err := reexec.Control()
	if err != nil {
		return nil, err
	}
	answers, line := json.NewEncoder(control), make([]byte, 1)
	for {
		if _, err := control.Read(line); err != nil {
			return nil, nil // the run has ended
		}
		if failed := m.failed.Load(); failed != nil {
			return nil, failed.(error)
		}
		var u unix.Rusage
		_ = unix.Getrusage(unix.RUSAGE_SELF, &u) // cannot fail with these arguments
		now := Count{Packets: m.packets.Load(), Dropped: m.congested.Load(), Lost: m.lost.Load(), CPU: time.Duration(u.Utime.Nano() + u.Stime.Nano())}
		if err := answers.Encode(now); err != nil {
			return nil, err
		}
	}
}

type mirror struct {
	ways                     [2]direction
	buffers                  sync.Pool
	packets, congested, lost atomic.Int64
	failed                   atomic.Value // an error
}

// read reads packets from the device, and queues or drops them. The direction of a packet
// follows from the port to which its connection's first packet, the SYN, was sent.
func (m *mirror) read(tun *os.File, r Rate) error {
	servers := make([]bool, 1<<16)
	for {
		b := m.buffers.Get().(*frame)
		n, err := tun.Read(b[:])
		if err != nil {
			return fmt.Errorf("read from the device: %w", err)
		}
		ip := int(b[0]&15) * 4
		if b[0]>>4 != 4 || b[9] != unix.IPPROTO_TCP || n < ip+20 {
			continue
		}
		m.packets.Add(1)
		from, to := int(b[ip])<<8|int(b[ip+1]), int(b[ip+2])<<8|int(b[ip+3])
		const syn, ack = 0x02, 0x10
		if b[ip+13]&(syn|ack) == syn {
			servers[to], servers[from] = true, false
		}
		way := &m.ways[0]
		if servers[to] {
			way = &m.ways[1]
		}
		if r.loss > 0 && rand.Float64() < r.loss {
			m.lost.Add(1)
			continue
		}
		now := time.Now()
		if way.free.Sub(now) > mostQueued {
			m.congested.Add(1)
			continue
		}
		if way.free.Before(now) {
			way.free = now
		}
		way.free = way.free.Add(time.Duration(float64(n) * 8 / float64(r.bits) * float64(time.Second)))
		swap := [4]byte(b[12:16])
		copy(b[12:16], b[16:20])
		copy(b[16:20], swap[:])
		way.queue <- packet{way.free.Add(r.delay), b, n}
	}
}

// deliver writes the packets of a direction to the device when it is time.
func (m *mirror) deliver(tun *os.File, way *direction) {
	for p := range way.queue {
		if wait := time.Until(p.at); wait > 0 {
			time.Sleep(wait)
		}
		if _, err := tun.Write(p.frame[:p.size]); err != nil {
			m.failed.Store(fmt.Errorf("write to the device: %w", err))
		}
		m.buffers.Put(p.frame)
	}
}

// openTUN makes the mirror's device, which disappears with this process.
func openTUN() (*os.File, error) {
	fd, err := unix.Open(tunFile, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", tunFile, err)
	}
	request, err := unix.NewIfreq(mirrorDevice)
	if err != nil {
		return nil, err
	}
	request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
		return nil, fmt.Errorf("%s: make a device: %w", tunFile, err)
	}
	device, err := netlink.LinkByName(mirrorDevice)
	if err != nil {
		return nil, err
	}
	address := &netlink.Addr{IPNet: &net.IPNet{IP: net.ParseIP(mirrorListen).To4(), Mask: net.CIDRMask(24, 32)}}
	return os.NewFile(uintptr(fd), "tun"), errors.Join(netlink.AddrAdd(device, address), netlink.LinkSetMTU(device, smallMTU),
		netlink.LinkSetTxQLen(device, 10_000), netlink.LinkSetUp(device), equalize(device, unix.RT_TABLE_MAIN))
}
