package floors

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"ipcbench/internal/futex"
)

const (
	// If the scheduler can choose, it moves two processes that wake each other to
	// one processor within some tens of milliseconds. An exchange then takes 3 µs
	// instead of 50 µs.
	settleTime = 80 * time.Millisecond

	exchangeTime   = 160 * time.Millisecond // total time of the samples and their gaps
	mostExchanges  = 400
	leastExchanges = 5 // with the largest gap, they exceed exchangeTime a little

	mostTime = 2 * time.Second // limit for hosts with a long round trip
)

// exchanges calls exchange(0), exchange(1) …, first untimed for settleTime, then timed, each
// time after the gap.
func (p *peer) exchanges(exchange func(i int) error) ([]Series, error) {
	i := 0
	for start := time.Now(); time.Since(start) < settleTime; i++ {
		if err := exchange(i); err != nil {
			return nil, err
		}
	}
	n := mostExchanges
	if p.Gap > 0 {
		n = max(leastExchanges, min(n, int(exchangeTime/p.Gap)))
	}
	samples := make([]float64, 0, n)
	begun := time.Now()
	for ; len(samples) < n && (len(samples) < leastExchanges || time.Since(begun) < mostTime); i++ {
		for pause := time.Now(); time.Since(pause) < p.Gap; { // uses the processor
		}
		start := time.Now()
		if err := exchange(i); err != nil {
			return nil, err
		}
		samples = append(samples, time.Since(start).Seconds())
	}
	return []Series{{Variant: fmt.Sprintf("gap=%v", p.Gap), Samples: samples}}, nil
}

// bye is the value of the request word that ends answer.
const bye = 1<<32 - 1

// words returns the two words in the shared page, on separate cache lines: knock changes
// request, answer changes reply.
func words() (request, reply futex.Word, err error) {
	page, err := unix.Mmap(pageFD, 0, pageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return request, reply, fmt.Errorf("map shared page: %w", err)
	}
	if request, err = futex.At(page, 0); err == nil {
		reply, err = futex.At(page, pageSize/2)
	}
	return request, reply, err
}

// knock measures the time to wake the other process, which runs answer, and to be
// woken by it.
func knock(p *peer) ([]Series, error) {
	request, reply, err := words()
	if err != nil {
		return nil, err
	}
	defer func() {
		request.Store(bye)
		_ = request.Wake(1) // cannot fail, because it has worked before
	}()
	ctx := context.Background() // the parent process ends this one
	return p.exchanges(func(i int) error {
		request.Add(1)
		if err := request.Wake(1); err != nil {
			return err
		}
		if err := reply.Wait(ctx, uint32(i)); err != nil {
			return err
		}
		if got := reply.Load(); got != uint32(i+1) {
			return fmt.Errorf("exchange %d: got answer %d", i+1, got)
		}
		return nil
	})
}

func answer(*peer) ([]Series, error) {
	request, reply, err := words()
	if err != nil {
		return nil, err
	}
	for last := uint32(0); ; last++ {
		if err := request.Wait(context.Background(), last); err != nil {
			return nil, err
		}
		if request.Load() == bye {
			return nil, nil
		}
		reply.Add(1)
		if err := reply.Wake(1); err != nil {
			return nil, err
		}
	}
}
