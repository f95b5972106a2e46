#!/bin/sh
# Regenerates the assembly loops of this package with gen.
set -eu
cd "$(dirname "$0")"
go run -modfile=../../tools.mod -tags generate ./gen -pkg kernel -out loops_amd64.s -stubs loops_amd64.go
