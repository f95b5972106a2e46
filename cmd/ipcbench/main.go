// Command ipcbench measures how a federated-learning or reinforcement-learning
// server and its client-trainer processes exchange model tensors.
package main

import (
	"ipcbench/cli"
	"ipcbench/transports/all"
)

func main() { cli.Main(all.Transports()...) }
