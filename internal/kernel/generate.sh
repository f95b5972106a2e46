#!/bin/sh
# Writes the loops of this package again, from gen.
set -eu
cd "$(dirname "$0")"
go run -modfile=../../tools.mod -tags generate ./gen -pkg kernel -out loops_amd64.s -stubs loops_amd64.go
