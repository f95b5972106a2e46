package bench_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ipcbench/bench"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
)

// self returns this executable, which is a build of ipcbench as far as blocks
// are concerned.
func self(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	check.Must(t, err)
	return exe
}

// script makes a program of a shell's commands.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "other")
	check.Must(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o700))
	return path
}

// TestAgainst: blocks of two builds take turns, all in processes of their own,
// with the controls of both; what the base says of itself is kept (guard 10).
func TestAgainst(t *testing.T) {
	h := host()
	p := quick(t)
	p.Rounds, p.Blocks = 6, 2
	o := options(t, h, p, spec(t, h, "grpc-batch", "cnn", 2, 3))
	o.Against = []string{self(t)}
	r, err := bench.RunWithFloors(t.Context(), o)
	check.Must(t, err)
	check.Must(t, r.Validate())
	if !r.Plan.Interleaved || r.Against == nil || r.Against.Go == "" {
		t.Errorf("interleaved %v, base %+v", r.Plan.Interleaved, r.Against)
	}
	builds := map[string]int{}
	positions := map[string][]int{}
	for _, c := range r.Cells {
		builds[c.Build]++
		if !c.Proved() || len(c.Blocks) != 2 {
			t.Errorf("%s, %s: %d blocks, proved %v", c.ID(), c.Build, len(c.Blocks), c.Proved())
		}
		for i, b := range c.Blocks {
			positions[c.Build] = append(positions[c.Build], b.Position)
			check.That(t, b.Index == i && b.SpanCost > 0 && len(b.Round) == 3 && b.Server.Memory.Peak > 0,
				"%s, %s: block %d is %d, of %d rounds", c.ID(), c.Build, i, b.Index, len(b.Round))
		}
	}
	check.That(t, len(r.Cells) == 4 && builds["base"] == 2 && builds["head"] == 2, "cells by build: %v, want 2 of each", builds)
	for _, f := range r.Floors {
		check.That(t, f.Name != "rpc-empty" || len(f.Blocks) == 2,
			"%d blocks of empty calls, want one for each block of this build", len(f.Blocks))
	}
}

// TestAgainstOthers: what is not such a build is refused, each with its own error.
func TestAgainstOthers(t *testing.T) {
	h := host()
	for name, tt := range map[string]struct{ exe, want string }{
		"missing":       {filepath.Join(t.TempDir(), "none"), "no such file"},
		"another":       {script(t, `echo 'unknown command "block"' >&2; exit 2`), `exit status 2: is it a build of ipcbench that can run single blocks?` + "\n" + `unknown command "block"`},
		"silent":        {script(t, "cat >/dev/null & exit 0"), "its answer"},
		"older":         {script(t, `read order; echo '{"version": 1}'`), "its answer: of version 1, and this build has version 2: measure each apart"},
		"garbage":       {script(t, `read order; echo '{"version": "x"}'`), "its answer"},
		"says nothing":  {script(t, `read order; echo '{"version": 2, "rules": 3}'`), "says nothing of the build"},
		"other rules":   {script(t, `read order; echo '{"version": 2, "rules": 1, "environment": {}, "refused": ["", ""]}'`), "by version 1 of the rules, this build by version 3"},
		"reports error": {script(t, `read order; echo '{"version": 2, "error": "no room"}'`), "no room"},
		"endless":       {"/usr/bin/yes", "an answer of more than 1048576 bytes"},
		"escapes":       {script(t, `read order; printf '{"version": 2, "error": "\\u001b]0;owned"}'`), `\x1b]0;owned`},
		"odd stderr":    {script(t, `printf '\033[2J' >&2; exit 1`), `\x1b[2J`},
		"knows nothing": {script(t, `read order; echo '{"version": 2, "rules": 3, "environment": {}, "refused": ["no such model", "no such model"]}'`), "can run none of these cells: no such model"},
		"control alone": {script(t, `read order; echo '{"version": 2, "rules": 3, "environment": {}, "refused": ["", "no such codec"]}'`), "can run none of these cells: no such codec"},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t, h, quick(t), spec(t, h, "pickle", "cnn", 1, 1))
			o.Against = []string{tt.exe}
			r, err := bench.RunWithFloors(t.Context(), o)
			check.That(t, err != nil && strings.Contains(err.Error(), tt.want) && strings.Contains(err.Error(), "--against"),
				"got %v, %v, want an error that holds %q", r, err, tt.want)
		})
	}
}

// TestAgainstWrongData: what the other build says of its models is compared with the
// reference chain of this one.
func TestAgainstWrongData(t *testing.T) {
	h := host()
	p := quick(t)
	p.Rounds, p.Blocks = 3, 1
	o := options(t, h, p, spec(t, h, "pickle", "cnn", 1, 2))
	o.Against = []string{script(t, self(t)+` "$@" | sed -E 's/("hashes":\["[0-9a-f]{16}",")[0-9a-f]{16}/\10123456789abcdef/'`)}
	_, err := bench.RunWithFloors(t.Context(), o)
	want := "round 1: the new model's hash is 0123456789abcdef, the reference chain has "
	check.That(t, err != nil && strings.Contains(err.Error(), want), "got %v, want %q in it", err, want)
}

// TestAgainstStopped: a process of a block that stops answering ends the run within
// a bound, and the error names it, what it was doing and its state.
func TestAgainstStopped(t *testing.T) {
	skip.Long(t)
	h := host()
	p := quick(t)
	p.Rounds, p.Blocks, p.RoundLimit = 3, 1, 4*time.Second
	o := options(t, h, p, spec(t, h, "pickle", "cnn", 1, 1))
	other := script(t, `read order
case "$order" in
*'"block":'*) kill -STOP $$ ;;
*) echo '{"version": 2, "rules": 3, "environment": {}, "refused": ["", ""]}' ;;
esac`)
	o.Against = []string{other}
	_, err := bench.RunWithFloors(t.Context(), o)
	check.Need(t, err != nil, "no error")
	for _, want := range []string{other, "a block of cnn (pid ", "has not ended after ", "stopped (T)", "continue it if it was stopped (kill -CONT)"} {
		check.That(t, strings.Contains(err.Error(), want), "got %v, want %q in it", err, want)
	}
}

// TestServeBlock: an order that cannot be carried out is answered, not obeyed.
func TestServeBlock(t *testing.T) {
	const (
		works = `"works": [{"model": "m", "down": [{"name": "w", "dtype": "f32", "shape": [2]}], "clients": [{"id": 0, "weight": 1, "device": "cpu"}]}]`
		cell  = `{"variant": "pickle", "workers": 1, "lanes_per_process": 1, "depth": 1}`
		block = `"block": {"rounds": 1, "verify": "all", "spans": 9999}`
	)
	for _, tt := range []struct{ name, order, want string }{
		{"another version", `{"version": 99, "cells": 7}`, `{"version":2,"rules":3,"error":"order: of version 99, and this build has version 2`},
		{"no such transport", `{"version": 2, ` + works + `, "cells": [{"variant": "pigeon"}], ` + block + `}`, "unknown transport"},
		{"no plan", `{"version": 2, ` + works + `, "cells": [` + cell + `], "block": {}}`, "room for spans must be at least 1, not 0"},
		{"no workers", `{"version": 2, ` + works + `, "cells": [{"variant": "pickle"}], ` + block + `}`, "--workers must be at least 1, not 0"},
		{"two cells", `{"version": 2, ` + works + `, "cells": [` + cell + `,` + cell + `], ` + block + `}`, "a block of 2 cells: must be one"},
		{"what it can", `{"version": 2, ` + works + `, "cells": [` + cell + `, {"variant": "pigeon"}, {"luck": 1}]}`, `"refused":["","unknown transport`},
		{"another key", `{"version": 2, ` + works + `, "cells": [{"luck": 1}]}`, `"refused":["unknown field \"luck\""]`},
		{"a block", `{"version": 2, ` + works + `, "cells": [` + cell + `], ` + block + `}`, `"hashes":["`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			check.Must(t, bench.ServeBlock(t.Context(), strings.NewReader(tt.order), &out, host()))
			check.That(t, strings.Contains(out.String(), tt.want), "answer %s, want %s in it", out.String(), tt.want)
		})
	}
	err := bench.ServeBlock(t.Context(), strings.NewReader("{"), new(strings.Builder), host())
	check.That(t, err != nil, "half an order was carried out")
}
