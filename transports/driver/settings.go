package driver

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"ipcbench/tensor"
	"ipcbench/transports/endpoint"
)

// A Setting is one option of a transport that users can set. The zero Kind is a
// choice among Values.
type Setting struct {
	Name    string
	Default string
	Values  []string // allowed values of a Choice; parts of a Text's value; nil for other kinds
	Kind    Kind
	Min     int // smallest Count or Size
	Max     int // largest Count or Size
	Help    string

	Canonical func(text string) (string, error) // checks a Text and returns its canonical spelling
}

// A Kind is the type of a setting's value.
type Kind uint8

// The kinds of values:
const (
	Choice Kind = iota // one of Values
	Count              // a whole number from Min to Max
	Size               // bytes from Min to Max, such as 2MiB
	Path               // a directory, or empty
	Text               // a text that Canonical accepts, made of Values
)

// OnOff returns a setting with the values "off" and "on"; the default is on.
func OnOff(name string, on bool, help string) Setting {
	s := Setting{Name: name, Values: []string{"off", "on"}, Default: "off", Help: help}
	if on {
		s.Default = "on"
	}
	return s
}

// Domain describes the allowed values, for help and errors.
func (s Setting) Domain() string {
	switch s.Kind {
	case Count:
		return fmt.Sprintf("%d..%d", s.Min, s.Max)
	case Size:
		return fmt.Sprintf("%s..%s", tensor.FormatBytes(s.Min), tensor.FormatBytes(s.Max))
	case Path:
		return "an absolute directory without \":\"" // which separates settings
	}
	return strings.Join(s.Values, "|")
}

// Check returns value in its canonical spelling, or an error that names the allowed
// values.
func (s Setting) Check(value string) (string, error) {
	ok := false
	switch s.Kind {
	case Count:
		n, err := strconv.Atoi(value)
		ok = err == nil && n >= s.Min && n <= s.Max
	case Size:
		n, err := tensor.ParseBytes(value)
		ok = err == nil && n >= s.Min && n <= s.Max
		if ok {
			value = tensor.FormatBytes(n)
		}
	case Path:
		ok = value == "" || strings.HasPrefix(value, "/") && !strings.Contains(value, ":")
	case Text:
		text, err := s.Canonical(value)
		if err != nil {
			return "", fmt.Errorf("%s=%s: %w", s.Name, value, err)
		}
		return text, nil
	default:
		ok = slices.Contains(s.Values, value)
	}
	if !ok {
		return "", fmt.Errorf("%s=%s: must be %s", s.Name, value, s.Domain())
	}
	return value, nil
}

// Settings maps the name of each setting of one transport to its value, defaults
// included.
type Settings map[string]string

// On reports whether the setting is "on".
func (s Settings) On(name string) bool { return s.Get(name) == "on" }

// Get returns the value of a setting. It panics if no setting has that name. A driver
// gets complete settings, so the name must be misspelt.
func (s Settings) Get(name string) string {
	v, ok := s[name]
	if !ok {
		panic("driver: no setting " + name)
	}
	return v
}

// Int returns the value of a Count, or of a Size in bytes. It panics for other kinds.
func (s Settings) Int(name string) int {
	n, err := tensor.ParseBytes(s.Get(name))
	if err != nil {
		panic("driver: setting " + name + " is not a number: " + s[name]) // transports.NewVariant checked it
	}
	return n
}

// String returns key=value;key=value, sorted by key.
func (s Settings) String() string {
	pairs := make([]string, 0, len(s))
	for _, k := range slices.Sorted(maps.Keys(s)) {
		pairs = append(pairs, k+"="+s[k])
	}
	return strings.Join(pairs, ";")
}

// NetworkSettings returns the settings, network and tls, of every transport that moves
// bytes through a socket.
func NetworkSettings() []Setting {
	return []Setting{
		{Name: "network", Values: []string{"unix", "tcp"}, Default: "unix",
			Help: "a Unix socket in the session's directory, or TCP"},
		{Name: "tls", Values: []string{endpoint.Off, endpoint.On, endpoint.Mutual}, Default: endpoint.Off,
			Help: "encrypt with TLS 1.3: on, the server shows a certificate; mutual, workers too"},
	}
}

// Reach returns the reach of a transport with the setting network, which s must have.
func (s Settings) Reach() Reach {
	if s.Get("network") == "tcp" {
		return Network
	}
	return Host
}
