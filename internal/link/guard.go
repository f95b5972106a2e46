package link

import (
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"ipcbench/internal/machine"
)

// Numbers of connections of Probe, of ping-pongs on each, and of connections at a time.
const (
	probes = 20
	pings  = 5
	atOnce = 4
)

// Probe sets the link r without its loss, and measures how exact its delay is. It fails if a
// median is less than twice the delay, or more than that by over 5 % and 1 ms: timers and hops
// add, they do not multiply. r must be set again afterwards.
func Probe(r Rate) (d machine.Delay, err error) {
	d.Link, d.By, d.MTU = r.String(), "netem", r.MTU()
	r.loss = 0
	if err := Set(r); err != nil {
		return d, err
	}
	listen, dial := r.Addresses()
	l, err := net.Listen("tcp", net.JoinHostPort(listen, "0"))
	if err != nil {
		return d, err
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	go func() { // answers each byte
		for {
			c, err := l.Accept()
			if err != nil {
				return // closed
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	var dialed errgroup.Group
	dialed.SetLimit(atOnce)
	connects, pongs := make([]time.Duration, probes), make([]time.Duration, probes*pings)
	for i := range probes {
		dialed.Go(func() error { return probe(net.JoinHostPort(dial, port), &connects[i], pongs[i*pings:][:pings]) })
	}
	if err := dialed.Wait(); err != nil {
		return d, fmt.Errorf("link %v: %w", r, err)
	}
	slices.Sort(connects)
	slices.Sort(pongs)
	twice := 2 * r.delay
	if Mirrored() {
		d.By = "mirror"
	}
	d.Congestion, d.Connect, d.PingPong = Congestion(), connects[probes/2]-twice, pongs[probes*pings/2]-twice
	if least, most := min(d.Connect, d.PingPong), max(d.Connect, d.PingPong); least < 0 || most > twice/20+time.Millisecond {
		return d, fmt.Errorf("link %v: a connect took %v and a ping-pong %v in the median, instead of twice the delay and at most 5 %% + 1 ms more: the machine is too busy for it, or the delay too short", r, connects[probes/2], pongs[probes*pings/2])
	}
	return d, nil
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
