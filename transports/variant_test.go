package transports_test

import (
	"strings"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/transports"
	"ipcbench/transports/driver"
)

// described is a transport of which only the name and settings are used.
type described struct {
	driver.Transport
	name     string
	settings []driver.Setting
}

func (d described) Name() string               { return d.name }
func (d described) Settings() []driver.Setting { return d.settings }

var list = []driver.Transport{
	described{name: "plain"},
	described{name: "rich", settings: []driver.Setting{
		{Name: "wait", Values: []string{"block", "spin"}, Default: "block"},
		driver.OnOff("reuse", true, "keep"),
		{Name: "chunk", Kind: driver.Size, Min: 1024, Max: 1 << 30, Default: "2MiB"},
		{Name: "threads", Kind: driver.Count, Min: 0, Max: 64, Default: "0"},
		{Name: "dir", Kind: driver.Path},
	}},
}

func TestParse(t *testing.T) {
	for _, c := range []struct{ text, canonical, settings string }{
		{"plain", "plain", "codec=none"},
		{"rich", "rich", "chunk=2MiB;codec=none;dir=;reuse=on;threads=0;wait=block"},
		{"rich:wait=spin", "rich:wait=spin", "chunk=2MiB;codec=none;dir=;reuse=on;threads=0;wait=spin"},
		{"rich:chunk=1048576:threads=8", "rich:chunk=1MiB:threads=8", "chunk=1MiB;codec=none;dir=;reuse=on;threads=8;wait=block"},
		{"rich:chunk=2097152", "rich", "chunk=2MiB;codec=none;dir=;reuse=on;threads=0;wait=block"},
		{"plain:codec=zstd", "plain:codec=zstd", "codec=zstd"},
		{"plain:codec=none", "plain", "codec=none"},
		{"rich:codec=xor+shuffle+zstd:threads=1", "rich:threads=1:codec=xor+shuffle+zstd", "chunk=2MiB;codec=xor+shuffle+zstd;dir=;reuse=on;threads=1;wait=block"},
		{"rich:dir=/tmp/x=y", "rich:dir=/tmp/x=y", "chunk=2MiB;codec=none;dir=/tmp/x=y;reuse=on;threads=0;wait=block"},
	} {
		v, err := transports.Parse(c.text, list)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		check.Equal(t, v.String(), c.canonical, c.text, "canonical")
		check.Equal(t, v.Settings.String(), c.settings, c.text, "settings")
		again, err := transports.Parse(v.String(), list)
		check.That(t, err == nil && again.String() == v.String(), "%s: its canonical form reads as %v, %v", c.text, again, err)
	}
}

// TestParseRefuses: every mistake is an error that names it and the valid choices.
func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                          `unknown transport "": must be one of plain, rich`,
		"fast":                      "must be one of plain, rich",
		"plain:x=1":                 `unknown setting of plain "x": must be one of codec`,
		"rich:speed=9":              "must be one of wait, reuse, chunk, threads, dir, codec",
		"rich:wait":                 "must be key=value",
		"rich:":                     "must be key=value",
		"rich:wait=spin:wait=block": "each key once",
		"rich:wait=sleep":           "must be block|spin",
		"rich:reuse=yes":            "must be off|on",
		"rich:chunk=1":              "must be 1KiB..1GiB",
		"rich:chunk=many":           "must be 1KiB..1GiB",
		"rich:chunk=9999999999GiB":  "must be 1KiB..1GiB",
		"rich:threads=-1":           "must be 0..64",
		"rich:threads=65":           "must be 0..64",
		"rich:dir=relative":         "must be an absolute directory",
		"plain:codec=zst":           `codec=zst: codec: unknown stage "zst": use none, `,
		"plain:codec=":              `unknown stage ""`,
	} {
		_, err := transports.Parse(text, list)
		check.That(t, err != nil && strings.Contains(err.Error(), want), "%q: got error %v, want one with %q", text, err, want)
	}
}

// TestPathWithoutColon: a path that Parse could not read back is refused by NewVariant,
// too.
func TestPathWithoutColon(t *testing.T) {
	_, err := transports.NewVariant(list[1], driver.Settings{"dir": "/data:1"})
	check.Fails(t, err, `dir=/data:1: must be an absolute directory without ":"`)
}

func TestSettings(t *testing.T) {
	v := check.Value(transports.Parse("rich:chunk=4KiB:threads=3", list))(t)
	if v.Settings.Int("chunk") != 4096 || v.Settings.Int("threads") != 3 || !v.Settings.On("reuse") || v.Settings.Get("wait") != "block" {
		t.Errorf("got %v", v.Settings)
	}
	defer func() {
		check.That(t, recover() != nil, "a setting that does not exist: got no panic")
	}()
	v.Settings.Get("nonsense")
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"plain", "rich:wait=spin:chunk=1MiB", "rich::", "rich:dir=/", "x:y=z"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := transports.Parse(text, list)
		if err != nil {
			return
		}
		again, err := transports.Parse(v.String(), list)
		check.Need(t, err == nil, "%q reads as %q, which does not read: %v", text, v, err)
		check.Need(t, again.String() == v.String() && again.Settings.String() == v.Settings.String(),
			"%q reads as %q, which reads as %q", text, v, again)
	})
}
