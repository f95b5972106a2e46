package batched

import (
	"testing"

	"ipcbench/transports/driver/drivertest"
)

func TestMain(m *testing.M) { drivertest.Main(m, Unary(), Batched(), Streaming()) }

func TestUnary(t *testing.T)     { drivertest.Run(t, Unary) }
func TestBatched(t *testing.T)   { drivertest.Run(t, Batched) }
func TestStreaming(t *testing.T) { drivertest.Run(t, Streaming) }
