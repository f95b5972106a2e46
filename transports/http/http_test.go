package http

import (
	"testing"

	"ipcbench/transports"
	"ipcbench/transports/transporttest"
)

func TestMain(m *testing.M) { transporttest.Main(m, New()) }

func TestHTTP(t *testing.T) { transporttest.Run(t, New) }

var _ transports.Transport = driver{}
