package link

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/vishvananda/netlink"

	"ipcbench/internal/reexec"
)

// A device is a running mirror, as its starter sees it.
type device struct {
	*reexec.Process
	rate    Rate
	answers *json.Decoder
	said    *reexec.Excerpt
	before  Count // counts at the last Set
	dropped int64 // likewise, by the kernel
}

var (
	using   sync.Mutex // held while the mirror is replaced or asked
	current *device    // the link's mirror; nil without one
)

// Processors are those that mirrors may use; nil is all.
var Processors []int

// mirrorPatience is how long a mirror may need for an answer.
const mirrorPatience = 5 * time.Second

// useMirror makes a mirror for r the current one, and resets its counts. The zero Rate ends it.
func useMirror(r Rate) (err error) {
	using.Lock()
	defer using.Unlock()
	if current != nil && current.rate != r {
		err = current.Stop()
		_ = current.Control.Close()
		current = nil
	}
	if err != nil || r == (Rate{}) {
		return err
	}
	if current == nil {
		d := &device{rate: r, said: &reexec.Excerpt{Most: 1000}}
		c := reexec.Command{Role: reexec.Mirror, Question: r, Args: []string{"(link)"}, Control: true, Stderr: d.said, CPUs: Processors}
		d.Process, err = reexec.Start(context.Background(), c)
		if err != nil {
			return err
		}
		current, d.answers = d, json.NewDecoder(d.Control)
	}
	if current.before, err = current.ask(); err == nil {
		current.dropped, err = kernelDrops()
	}
	if err != nil && strings.Contains(err.Error(), tunFile) {
		err = &Error{"a mirror, which holds the packets of a link with a delay, is refused: " + current.said.String(),
			"modprobe tun, as root; in a container, docker run --device " + tunFile + "; or a --link without a delay"}
	}
	return err
}

// ask returns the mirror's counts since its start. The caller must hold using.
func (d *device) ask() (now Count, err error) {
	_ = d.Control.SetDeadline(time.Now().Add(mirrorPatience))
	_, _ = d.Control.Write([]byte{'\n'}) // its error returns as the error of reading
	if err := d.answers.Decode(&now); err == nil {
		return now, nil
	}
	select {
	case <-d.Exited():
		return now, fmt.Errorf("the link's mirror (pid %d) has ended: %v: %s", d.PID(), d.Err(), d.said)
	case <-time.After(time.Second):
		return now, fmt.Errorf("the link's mirror (pid %d) has not answered for %v: if it was stopped, continue it (kill -CONT)", d.PID(), mirrorPatience)
	}
}

// Watch runs f with a context that ends when a mirror no longer works, also one that a later Set
// makes, and while nothing uses the link. Then Watch returns the mirror's error instead of the one
// of f, which followed from it.
func Watch(ctx context.Context, f func(ctx context.Context) error) (err error) {
	if !inside {
		return f(ctx)
	}
	watched, cancel := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		for watched.Err() == nil {
			if err := works(); err != nil {
				cancel(err)
			}
			select {
			case <-watched.Done():
			case <-time.After(time.Second):
			}
		}
	})
	err = f(watched)
	if err != nil && ctx.Err() == nil {
		broken := context.Cause(watched)
		if broken == nil { // an error that follows may be earlier
			broken = works()
		}
		err = cmp.Or(broken, err)
	}
	cancel(nil)
	watching.Wait()
	return err
}

// works returns an error if there is a mirror that does not work.
func works() (err error) {
	using.Lock()
	defer using.Unlock()
	if current != nil {
		_, err = current.ask()
	}
	return err
}

// kernelDrops returns the number of packets that the kernel dropped at the mirror's device.
func kernelDrops() (int64, error) {
	device, err := netlink.LinkByName(mirrorDevice)
	if err != nil || device.Attrs().Statistics == nil {
		return 0, err
	}
	s := device.Attrs().Statistics
	return int64(s.RxDropped + s.TxDropped), nil
}

// counts adds the mirror's counts since the last Set.
func (d *device) counts() (c Count, err error) {
	if c, err = d.ask(); err != nil {
		return c, err
	}
	c = Count{Packets: c.Packets - d.before.Packets, Dropped: c.Dropped - d.before.Dropped, Lost: c.Lost - d.before.Lost, CPU: c.CPU - d.before.CPU}
	drops, err := kernelDrops()
	if drops -= d.dropped; err == nil && drops > 0 {
		err = fmt.Errorf("link: the kernel dropped %d packets although the link's queue had room: the measurement is wrong", drops)
	}
	return c, err
}
