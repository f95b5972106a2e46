//go:build !linux || 386 || arm || mips || mipsle

package main

import (
	"fmt"
	"os"
	"runtime"
)

func main() {
	fmt.Fprintf(os.Stderr, "ipcbench: needs 64-bit Linux, and this is %s/%s: use a Linux machine, container or virtual machine\n", runtime.GOOS, runtime.GOARCH)
	os.Exit(1)
}
