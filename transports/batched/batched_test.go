package batched

import (
	"testing"

	"ipcbench/transports/transporttest"
)

func TestMain(m *testing.M) { transporttest.Main(m, Unary(), Batched(), Streaming()) }

func TestUnary(t *testing.T)     { transporttest.Run(t, Unary) }
func TestBatched(t *testing.T)   { transporttest.Run(t, Batched) }
func TestStreaming(t *testing.T) { transporttest.Run(t, Streaming) }
