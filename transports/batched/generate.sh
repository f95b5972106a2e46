#!/bin/sh
# Regenerates federationpb from federation.proto. It needs protoc 3.21 or later
# (Debian: protobuf-compiler); the two plugins come from tools.mod.
set -eu
cd "$(dirname "$0")"
root=$(go list -m -f '{{.Dir}}')
protoc \
	--plugin=protoc-gen-go="$(go tool -modfile="$root/tools.mod" -n protoc-gen-go)" \
	--plugin=protoc-gen-go-grpc="$(go tool -modfile="$root/tools.mod" -n protoc-gen-go-grpc)" \
	--go_out=federationpb --go_opt=paths=source_relative \
	--go-grpc_out=federationpb --go-grpc_opt=paths=source_relative \
	federation.proto
