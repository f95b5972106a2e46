package http

import (
	"ipcbench/phase"
	"ipcbench/transports/http/store"
)

// fallbacks count tensors that travel as bodies although the transport is named
// for shared memory. Those of one that is not count nothing.
type fallbacks map[string]*phase.Counter

func newFallbacks(rec *phase.Recorder, local bool) fallbacks {
	if !local {
		return nil
	}
	f := fallbacks{}
	for _, why := range []string{store.Off, store.Full, store.DType, store.Remote, store.Stale} {
		f[why] = rec.Counter(phase.Fallback + why)
	}
	return f
}

// add counts n tensors. A reason that a peer made up is that it is remote.
func (f fallbacks) add(why string, n int) {
	if f == nil {
		return
	}
	c, ok := f[why]
	if !ok {
		c = f[store.Remote]
	}
	c.Add(n)
}
