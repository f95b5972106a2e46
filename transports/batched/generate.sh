#!/bin/sh
# Regenerates federationpb, and what workers in Python use, from federation.proto, or
# writes what they would be to the folder that is its argument. It needs protoc 3.21
# (Debian: protobuf-compiler); the two plugins come from tools.mod.
set -eu
cd "$(dirname "$0")"
out=${1:-federationpb}
python=${1:-../../python/ipcbench_worker}
root=$(go list -m -f '{{.Dir}}')
plugin() { go tool -modfile="$root/tools.mod" -n "$1"; }
protoc \
	--plugin=protoc-gen-go="$(plugin protoc-gen-go)" \
	--plugin=protoc-gen-go-grpc="$(plugin protoc-gen-go-grpc)" \
	--go_out="$out" --go_opt=paths=source_relative \
	--go-grpc_out="$out" --go-grpc_opt=paths=source_relative \
	--python_out="$python" \
	federation.proto
