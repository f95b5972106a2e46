#!/bin/sh
# Regenerates what protoc 3.21 (Debian: protobuf-compiler, protobuf-compiler-grpc) makes of
# exchange.proto, or writes it to the folder that is its argument.
set -eu
cd "$(dirname "$0")"
protoc --python_out="${1:-.}" --plugin=protoc-gen-grpc="$(command -v grpc_python_plugin)" --grpc_out="${1:-.}" exchange.proto
