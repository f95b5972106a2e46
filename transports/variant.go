// Package transports is what users of a transport hold: a [Variant], which is a
// transport with its settings as the command line names it, and the [Server] and
// the [Worker] of a session. The rules that are the same for all transports are kept
// here; package driver is what a family of them implements.
package transports

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"ipcbench/transports/driver"
)

// A Variant is a transport with its settings: one row of a comparison.
type Variant struct {
	Transport driver.Transport
	Settings  driver.Settings
}

// Settings returns what can be set about a transport: its own settings, and that of
// every transport.
func Settings(t driver.Transport) []driver.Setting {
	return append(slices.Clip(t.Settings()), CodecSetting())
}

// Parse reads a variant, name[:key=value]…, with the transports in all. Its
// errors say what could have been written instead.
func Parse(text string, all []driver.Transport) (Variant, error) {
	name, rest, more := strings.Cut(text, ":")
	i := slices.IndexFunc(all, func(t driver.Transport) bool { return t.Name() == name })
	if i < 0 {
		names := make([]string, len(all))
		for i, t := range all {
			names[i] = t.Name()
		}
		return Variant{}, fmt.Errorf("unknown transport %q: want one of %s", name, strings.Join(names, ", "))
	}
	given := driver.Settings{}
	for more {
		var pair string
		pair, rest, more = strings.Cut(rest, ":")
		key, value, ok := strings.Cut(pair, "=")
		if _, again := given[key]; !ok || again {
			return Variant{}, fmt.Errorf("transport %q: setting %q: want key=value, each key once", text, pair)
		}
		given[key] = value
	}
	v, err := NewVariant(all[i], given)
	if err != nil {
		return Variant{}, fmt.Errorf("transport %q: %w", text, err)
	}
	return v, nil
}

// NewVariant checks the given settings and adds the defaults of the others.
func NewVariant(t driver.Transport, given driver.Settings) (Variant, error) {
	v := Variant{Transport: t, Settings: driver.Settings{}}
	var known []string
	for _, s := range Settings(t) {
		known = append(known, s.Name)
		value, ok := given[s.Name]
		if !ok {
			value = s.Default
		}
		canonical, err := s.Check(value)
		if err != nil {
			return Variant{}, err
		}
		v.Settings[s.Name] = canonical
	}
	for key := range given {
		if _, ok := v.Settings[key]; ok {
			continue
		}
		return Variant{}, fmt.Errorf("unknown setting %q: %s has %s", key, t.Name(), strings.Join(known, ", "))
	}
	return v, nil
}

// Traits returns what the variant is, whatever it is asked to carry.
func (v Variant) Traits() driver.Traits { return v.Transport.Traits(v.Settings) }

// Check reports what o asks for and the variant cannot carry on this machine, before
// any process starts.
func (v Variant) Check(o driver.Options) error {
	if o.Lanes < 1 || o.Clients < 0 || o.Depth < 1 {
		return fmt.Errorf("%s: %d lanes, %d clients, depth %d: want at least 1, 0 and 1", v.Transport.Name(), o.Lanes, o.Clients, o.Depth)
	}
	if err := v.Transport.Check(v.travelling(o)); err != nil {
		return fmt.Errorf("%s: %w", v.Transport.Name(), err)
	}
	return nil
}

// Footprint returns the bytes of memory that a session with o needs at its peak, in
// all processes together, shared memory counted once.
func (v Variant) Footprint(o driver.Options) int64 {
	n, own := v.Transport.Footprint(v.travelling(o)), heap(v.Codec(), o)
	if n > math.MaxInt64-own {
		return math.MaxInt64
	}
	return n + own
}

// Needs returns what a session with o takes besides memory.
func (v Variant) Needs(o driver.Options) (driver.Needs, error) {
	t, ok := v.Transport.(driver.Needy)
	if !ok {
		return driver.Needs{}, nil
	}
	return t.Needs(v.travelling(o))
}

// String returns the shortest text that Parse reads as v: the name and what
// differs from the defaults, in the order of the transport's settings.
func (v Variant) String() string {
	text := v.Transport.Name()
	for _, s := range Settings(v.Transport) {
		if value, ok := v.Settings[s.Name]; ok && value != s.Default {
			text += ":" + s.Name + "=" + value
		}
	}
	return text
}
