package link

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"ipcbench/internal/machine"
)

// Numbers of connections of a try of Probe, of ping-pongs on each, of connections at a time, and of
// tries.
const (
	probes = 20
	pings  = 5
	atOnce = 4
	tries  = 3
)

// Probe sets the link r without its loss, and measures how exact its delay is and what limits one
// connection. r must be set again afterwards. late is empty if a median is more than twice the delay
// by at most 5 % and 1 ms in one of several tries: timers and hops add, they do not multiply. Else it
// says how late packets are. Probe fails if packets arrive before the delay has passed.
func Probe(r Rate) (d machine.Delay, late string, err error) {
	d.Link, d.By, d.MTU, d.Congestion = r.String(), "mirror", smallMTU, Congestion
	r.loss = 0
	defer func() {
		if err != nil {
			err = fmt.Errorf("link %v: %w", r, err)
		}
	}()
	if err = Set(r); err == nil {
		err = readBack(r.Addresses())
	}
	if err != nil {
		return d, "", err
	}
	address, stop, err := serve(r)
	if err != nil {
		return d, "", err
	}
	defer stop()
	twice := 2 * r.delay
	for try := 0; try == 0 || late != "" && try < tries; try++ {
		connect, pong, err := medians(address)
		if err != nil {
			return d, "", err
		}
		found := fmt.Sprintf("a connect took %v and a ping-pong %v in the median", connect, pong)
		d.Connect, d.PingPong = connect-twice, pong-twice
		if d.Connect < 0 || d.PingPong < 0 {
			return d, "", fmt.Errorf("%s, less than twice the delay", found)
		}
		if late = ""; max(d.Connect, d.PingPong) > twice/20+time.Millisecond {
			late = d.Link + ": " + found + ", instead of twice the delay and at most 5 % + 1 ms more"
		}
	}
	d.Stream, d.Limit, err = stream(r, address)
	return d, late, err
}

// medians returns the medians of the times that connects and ping-pongs take.
func medians(address string) (connect, pong time.Duration, err error) {
	var dialed errgroup.Group
	dialed.SetLimit(atOnce)
	connects, pongs := make([]time.Duration, probes), make([]time.Duration, probes*pings)
	for i := range probes {
		dialed.Go(func() error { return probe(address, &connects[i], pongs[i*pings:][:pings]) })
	}
	err = dialed.Wait()
	slices.Sort(connects)
	slices.Sort(pongs)
	return connects[probes/2], pongs[probes*pings/2], err
}

// serve starts a server on the link, which answers each byte if its first is 0, and reads only if
// it is 1.
func serve(r Rate) (address string, stop func() error, err error) {
	listen, dial := r.Addresses()
	l, err := net.Listen("tcp", net.JoinHostPort(listen, "0"))
	if err != nil {
		return "", nil, err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // closed
			}
			go func() {
				defer c.Close()
				first := make([]byte, 1)
				if _, err := io.ReadFull(c, first); err == nil && first[0] == 0 {
					_, _ = c.Write(first)
					_, _ = io.Copy(c, c)
				}
				_, _ = io.Copy(io.Discard, c)
			}()
		}
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return net.JoinHostPort(dial, port), l.Close, nil
}

// probe measures how long a connect and ping-pongs take.
func probe(address string, connect *time.Duration, pongs []time.Duration) error {
	began := time.Now()
	c, err := net.DialTimeout("tcp", address, 4*mostWait)
	if err != nil {
		return err
	}
	defer c.Close()
	*connect = time.Since(began)
	b := make([]byte, 1)
	for i := range pongs {
		began := time.Now()
		if _, err = c.Write(b); err == nil {
			_, err = io.ReadFull(c, b)
		}
		if err != nil {
			return err
		}
		pongs[i] = time.Since(began)
	}
	return nil
}

// stream sends over one connection to address. It returns the bytes per second once the windows
// have grown, and what limited them if it was not the rate of r: the kernel counts how long a
// socket waits for the reader's window and for its own buffer.
func stream(r Rate, address string) (rate float64, limit string, err error) {
	c, err := net.DialTimeout("tcp", address, 4*mostWait)
	if err != nil {
		return 0, "", err
	}
	defer c.Close()
	half, block := min(time.Second/2+20*r.delay, 5*time.Second), bytes.Repeat([]byte{1}, 256<<10)
	_ = c.SetDeadline(time.Now().Add(5*half + 4*mostWait))
	read := func() (sent *unix.TCPInfo, n Count, err error) {
		for until := time.Now().Add(half); err == nil && time.Now().Before(until); {
			_, err = c.Write(block)
		}
		if err == nil {
			sent, err = option(c, func(fd int) (*unix.TCPInfo, error) {
				return unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
			})
		}
		if err == nil {
			n, err = Counts()
		}
		return sent, n, err
	}
	before, first, err := read()
	var after *unix.TCPInfo
	var last Count
	var busy float64 // µs
	for tries := 0; err == nil; tries++ {
		if after, last, err = read(); err != nil {
			break
		}
		busy = float64(after.Busy_time - before.Busy_time)
		rate = 1e6 * float64(after.Bytes_acked-before.Bytes_acked) / busy
		if rate <= float64(r.bits)/8 || tries == 2 {
			break
		}
		before, first = after, last // on a busy machine, acknowledgements of bytes before the first reading came late
	}
	if err != nil {
		return 0, "", err
	}
	switch {
	case rate > 0.9*float64(r.bits)/8:
		return rate, "rate", nil
	case float64((last.CPU - first.CPU).Microseconds()) > 0.8*busy:
		return rate, "mirror", nil
	case float64(after.Rwnd_limited-before.Rwnd_limited) > busy/2:
		return rate, "receive window", nil
	case float64(after.Sndbuf_limited-before.Sndbuf_limited) > busy/2:
		return rate, "socket buffer", nil
	}
	return rate, "congestion window", nil
}
