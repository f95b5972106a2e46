package http

import "ipcbench/phase"

// Reasons why a tensor does not go through shared memory.
const (
	fallbackOff    = "off"    // it was switched off
	fallbackFull   = "full"   // the slab has no room for it
	fallbackDType  = "dtype"  // the slab holds tensors of the ten types only
	fallbackRemote = "remote" // the peer could not open the slab, or not find its nonce in it
	fallbackStale  = "stale"  // the slab does not hold it any more
)

// fallbacks count tensors that travel as bodies although the transport is named
// for shared memory. Those of one that is not count nothing.
type fallbacks map[string]*phase.Counter

func newFallbacks(rec *phase.Recorder, local bool) fallbacks {
	if !local {
		return nil
	}
	f := fallbacks{}
	for _, why := range []string{fallbackOff, fallbackFull, fallbackDType, fallbackRemote, fallbackStale} {
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
		c = f[fallbackRemote]
	}
	c.Add(n)
}
