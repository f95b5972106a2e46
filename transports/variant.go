// Package transports is the interface for users of a transport. A [Variant] is a transport
// with its settings, as named on the command line. [Listen] starts the [Server] of a
// session, and [Dial] connects a [Worker].
//
// Models and jobs enter at the server and leave at workers; updates go the opposite way. Their
// memory is lent by the driver or, if there is a codec, by this package. It enforces the rules that
// all transports share and applies codecs; transports implement package driver.
package transports

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"ipcbench/internal/near"
	"ipcbench/transports/driver"
)

// A Variant is a transport, or a program that runs whole blocks, with its settings: one row of a
// comparison.
type Variant struct {
	Subject  driver.Subject
	Settings driver.Settings
}

// Settings returns the settings of t: its own, and codec.
func Settings(t driver.Subject) []driver.Setting {
	return append(slices.Clip(t.Settings()), CodecSetting())
}

// Parse parses a variant, name[:key=value]…, of one of the transports in all. If it
// fails, the error names the possible names or values.
func Parse[K driver.Subject](text string, all []K) (Variant, error) {
	name, rest, more := strings.Cut(text, ":")
	i := slices.IndexFunc(all, func(t K) bool { return t.Name() == name })
	if i < 0 {
		names := make([]string, len(all))
		for i, t := range all {
			names[i] = t.Name()
		}
		return Variant{}, near.Unknown("transport", name, names)
	}
	given := driver.Settings{}
	for more {
		var pair string
		pair, rest, more = strings.Cut(rest, ":")
		key, value, ok := strings.Cut(pair, "=")
		if _, again := given[key]; !ok || again {
			return Variant{}, fmt.Errorf("transport %q: setting %q: must be key=value, each key once", text, pair)
		}
		given[key] = value
	}
	v, err := NewVariant(all[i], given)
	if err != nil {
		return Variant{}, fmt.Errorf("transport %q: %w", text, err)
	}
	return v, nil
}

// NewVariant returns t with the given settings, in canonical spelling, and the defaults of
// the others. It fails if a setting is unknown or has a wrong value.
func NewVariant(t driver.Subject, given driver.Settings) (Variant, error) {
	v := Variant{Subject: t, Settings: driver.Settings{}}
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
		return Variant{}, near.Unknown("setting of "+t.Name(), key, known)
	}
	return v, nil
}

// transport returns the transport of sessions. It is an error if there is none, because the variant
// is of a program that runs whole blocks.
func (v Variant) transport() (driver.Transport, error) {
	t, ok := v.Subject.(driver.Transport)
	if !ok {
		return nil, fmt.Errorf("%s is not a transport: it runs blocks itself", v.Subject.Name())
	}
	return t, nil
}

// Traits returns the transport's properties with these settings.
func (v Variant) Traits() driver.Traits { return v.Subject.Traits(v.Settings) }

// Check returns an error if the variant cannot run a session with o on this machine. It
// is called before any process starts.
func (v Variant) Check(o driver.Options) error {
	if o.Lanes < 1 || o.Clients < 0 || o.Depth < 1 {
		return fmt.Errorf("%s: %d lanes, %d clients, depth %d: must be at least 1, 0 and 1", v.Subject.Name(), o.Lanes, o.Clients, o.Depth)
	}
	if err := v.Subject.Check(v.driverOptions(o)); err != nil {
		return fmt.Errorf("%s: %w", v.Subject.Name(), err)
	}
	return nil
}

// Footprint returns the bytes of memory that a session with o needs at its peak: the sum
// over all processes, with shared memory counted once. It returns math.MaxInt64 if the
// sum overflows.
func (v Variant) Footprint(o driver.Options) int64 {
	n, own := v.Subject.Footprint(v.driverOptions(o)), heap(v.Codec(), o)
	if n > math.MaxInt64-own {
		return math.MaxInt64
	}
	return n + own
}

// Needs returns the resources other than memory that a session with o needs.
func (v Variant) Needs(o driver.Options) (driver.Needs, error) {
	return v.Subject.Needs(v.driverOptions(o))
}

// String returns the shortest text that Parse reads as v: the name and the settings that
// differ from their defaults, in the order of the transport's settings.
func (v Variant) String() string {
	text := v.Subject.Name()
	for _, s := range Settings(v.Subject) {
		if value, ok := v.Settings[s.Name]; ok && value != s.Default {
			text += ":" + s.Name + "=" + value
		}
	}
	return text
}
