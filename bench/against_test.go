package bench_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ipcbench/bench/program"
	"ipcbench/bench/result"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/phase"
)

// self returns this executable, which also serves as another build of ipcbench.
func self(t *testing.T) string {
	t.Helper()
	return check.Value(os.Executable())(t)
}

// script writes an executable shell script and returns its path.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "other")
	check.Must(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o700))
	return path
}

// TestAgainst: blocks of two builds alternate, each in its own processes and each build with its control. The result
// keeps the environment that the base reports (guard 10).
func TestAgainst(t *testing.T) {
	o := options(t, short(t, 6, 2), "grpc-batch cnn workers=2 clients=3")
	o.Builds = program.Builds([]string{self(t)}, nil)
	r := run(t, o)
	check.Need(t, r.Plan.Baseline == result.Base && len(r.Programs) == 2, "baseline %q, programs %+v", r.Plan.Baseline, r.Programs)
	base, head := r.Programs[0], r.Programs[1]
	check.That(t, base.Name == result.Base && base.Environment.Go != "" && head.Name == result.Head && head.Environment == nil,
		"base %+v, head %+v", base, head)
	builds := map[string]int{}
	for _, c := range r.Cells {
		builds[c.Program]++
		proved(t, c)
		check.That(t, len(c.Blocks) == 2, "%s, %s: %d blocks", c.ID(), c.Program, len(c.Blocks))
		for i, b := range c.Blocks {
			check.That(t, b.Index == i && b.SpanCost > 0 && len(b.Round) == 3 && b.Server.Memory.Peak > 0,
				"%s, %s: block %d is %d, of %d rounds", c.ID(), c.Program, i, b.Index, len(b.Round))
		}
	}
	check.Equal(t, builds, map[string]int{"base": 2, "head": 2}, "cells by build")
	for _, f := range r.Floors {
		check.That(t, f.Name != "rpc-empty" || len(f.Blocks) == 2,
			"%d blocks of empty calls, want one for each block of this build", len(f.Blocks))
	}
}

// TestAgainstCells: another build gets all unusual settings of a cell, applies them and computes the same models.
func TestAgainstCells(t *testing.T) {
	cells := []string{
		"pickle cnn up=lora:2 workers=1 clients=2", "pickle cnn workers=1 clients=2 change=5%/rows values=normal scenario=sync",
		"pickle cnn workers=1 clients=2 nested=on",
	}
	o := options(t, short(t, 3, 1), cells...)
	o.Builds = program.Builds([]string{self(t)}, nil)
	both := map[string]int{}
	for _, c := range run(t, o).Cells {
		both[c.ID()]++
		proved(t, c)
		spent := c.Blocks[0].Phases[phase.Reconstruct.String()]
		check.That(t, (spent > 0) == c.Nested, "%s, %s: %d ns to reconstruct", c.ID(), c.Program, spent)
	}
	for _, id := range cells {
		check.Equal(t, both[id], 2, "builds of", id)
	}
}

// TestAgainstOthers: a program that is not a usable build is rejected, with the reason.
func TestAgainstOthers(t *testing.T) {
	for name, tt := range map[string]struct{ exe, want string }{
		"missing":       {filepath.Join(t.TempDir(), "none"), "no such file"},
		"another":       {script(t, `echo 'unknown command "block"' >&2; exit 2`), `exit status 2: is it a build of ipcbench that can run single blocks?` + "\n" + `unknown command "block"`},
		"silent":        {script(t, "cat >/dev/null & exit 0"), "its answer"},
		"says nothing":  {script(t, `read order; echo '{"version": 2, "rules": 4}'`), "does not identify the build"},
		"other rules":   {script(t, `read order; echo '{"version": 2, "rules": 1, "environment": {}, "refused": ["", ""]}'`), "by version 1 of the rules, this build by version 4"},
		"endless":       {"/usr/bin/yes", "the answer has more than 1048576 bytes"},
		"escapes":       {script(t, `read order; printf '{"version": 2, "error": "\\u001b]0;owned"}'`), `\x1b]0;owned`},
		"odd stderr":    {script(t, `printf '\033[2J' >&2; exit 1`), `\x1b[2J`},
		"knows nothing": {script(t, `read order; echo '{"version": 2, "rules": 4, "environment": {}, "refused": ["no such model", "no such model"]}'`), "can run none of these cells: no such model"},
		"control alone": {script(t, `read order; echo '{"version": 2, "rules": 4, "environment": {}, "refused": ["", "no such codec"]}'`), "can run none of these cells: no such codec"},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t, short(t, 0, 1), "pickle cnn")
			o.Builds = program.Builds([]string{tt.exe}, nil)
			fails(t, o, tt.want, "--against")
		})
	}
}

// TestAgainstWrongData: the model hashes of the other build are compared with this build's reference chain.
func TestAgainstWrongData(t *testing.T) {
	o := options(t, short(t, 3, 1), "pickle cnn clients=2")
	o.Builds = program.Builds([]string{script(t, self(t)+` "$@" | sed -E 's/("hashes":\["[0-9a-f]{16}",")[0-9a-f]{16}/\10123456789abcdef/'`)}, nil)
	fails(t, o, "round 1: the new model's hash is 0123456789abcdef, the reference chain has ")
}

// TestAgainstStopped: a block's process that stops answering ends the run within its rounds at the round limit. The error names the
// process, its block and its state.
func TestAgainstStopped(t *testing.T) {
	skip.Long(t)
	o := options(t, short(t, 1, 1), "pickle cnn")
	o.Plan.RoundLimit = 2 * time.Second
	other := script(t, `read order
case "$order" in
*'"block":'*) kill -STOP $$ ;;
*) echo '{"version": 2, "rules": 4, "environment": {}, "refused": ["", ""]}' ;;
esac`)
	o.Builds = program.Builds([]string{other}, nil)
	fails(t, o, other, "a block of cnn (pid ", "has not ended after ", "stopped (T)", "if it was stopped, continue it (kill -CONT)")
}

// TestServeBlock: a valid order is carried out; any other is answered with the reason.
func TestServeBlock(t *testing.T) {
	const (
		works = `"works": [{"model": "m", "down": [{"name": "w", "dtype": "f32", "shape": [2]}], "clients": [{"id": 0, "weight": 1, "device": "cpu"}]}]`
		cell  = `{"variant": "pickle", "workers": 1, "lanes_per_process": 1, "depth": 1}`
		block = `"block": {"rounds": 1, "verify": "all", "spans": 9999}`
	)
	for _, tt := range []struct{ name, order, want string }{
		{"another version", `{"version": 99, "cells": 7}`, `{"version":2,"rules":4,"error":"order: version: 99: must be 2`},
		{"two cells", `{"version": 2, ` + works + `, "cells": [` + cell + `,` + cell + `], ` + block + `}`, "a block must have one cell, not 2"},
		{"what it can", `{"version": 2, ` + works + `, "cells": [` + cell + `, {"variant": "pigeon"}, {"luck": 1}]}`, `"refused":["","unknown transport`},
		{"another key", `{"version": 2, ` + works + `, "cells": [{"luck": 1}]}`, `"refused":["unknown field \"luck\""]`},
		{"a block", `{"version": 2, ` + works + `, "cells": [` + cell + `], ` + block + `}`, `"hashes":["`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			check.Must(t, program.Serve(t.Context(), strings.NewReader(tt.order), &out, host()))
			check.That(t, strings.Contains(out.String(), tt.want), "answer %s, want %s in it", out.String(), tt.want)
		})
	}
	err := program.Serve(t.Context(), strings.NewReader("{"), new(strings.Builder), host())
	check.That(t, err != nil, "half an order was carried out")
}
