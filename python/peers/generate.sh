#!/bin/sh
# Generates exchange_pb2.py and exchange_pb2_grpc.py from exchange.proto, here or in the folder
# that is its argument. Needs protoc 3.21 (Debian: protobuf-compiler, protobuf-compiler-grpc).
set -eu
cd "$(dirname "$0")"
protoc --python_out="${1:-.}" --plugin=protoc-gen-grpc="$(command -v grpc_python_plugin)" --grpc_out="${1:-.}" exchange.proto
