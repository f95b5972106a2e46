package http

import (
	"testing"

	"ipcbench/transports"
	"ipcbench/transports/transporttest"
)

func TestMain(m *testing.M) { transporttest.Main(m, New(), Local()) }

func TestHTTP(t *testing.T) { transporttest.Run(t, New) }

func TestHTTPShm(t *testing.T) { transporttest.Run(t, Local) }

var _ transports.Transport = driver{}
