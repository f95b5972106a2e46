//go:build linux && !386 && !arm && !mips && !mipsle

// Command ipcbench measures how a training server and its workers exchange model tensors.
package main

import (
	"ipcbench/cli"
	"ipcbench/transports/all"
)

func main() { cli.Main(all.Transports()...) }
