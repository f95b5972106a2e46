package batched

import (
	"slices"
	"testing"

	"ipcbench/internal/test/skip"
	"ipcbench/transports/driver"
	"ipcbench/transports/driver/drivertest"
)

func TestMain(m *testing.M) {
	all := []driver.Transport{Unary(), Batched(), Streaming()}
	for _, t := range all {
		all = append(all, generated{t})
	}
	drivertest.Main(m, all...)
}

func TestUnary(t *testing.T)     { drivertest.RunSibling(t, Unary) }
func TestBatched(t *testing.T)   { drivertest.RunSibling(t, Batched) }
func TestStreaming(t *testing.T) { drivertest.Run(t, Streaming) }

// A generated transport has marshal=generated for its default, and a name of its
// own, by which worker processes find it. It has no TLS, which lies below messages and
// is tried without it.
type generated struct{ driver.Transport }

func (g generated) Name() string { return g.Transport.Name() + "-generated" }

func (g generated) Settings() []driver.Setting {
	all := g.Transport.Settings()
	for i := range all {
		if all[i].Name == "marshal" {
			all[i].Default = "generated"
		}
	}
	return slices.DeleteFunc(all, func(s driver.Setting) bool { return s.Name == "tls" })
}

func generatedOf(newTransport func() driver.Transport) func() driver.Transport {
	return func() driver.Transport { return generated{newTransport()} }
}

// TestMarshalGenerated: the stock messages and gRPC's own codec and buffers at both ends,
// over the same connections. The memory that they share between goroutines is the same in
// the three of them.
func TestMarshalGenerated(t *testing.T) {
	skip.Long(t)
	t.Run("stream", func(t *testing.T) { drivertest.RunCarrying(t, generatedOf(Streaming)) })
	if raceDetector || testing.Short() {
		return
	}
	t.Run("tensor", func(t *testing.T) { drivertest.RunCarrying(t, generatedOf(Unary)) })
	t.Run("batch", func(t *testing.T) { drivertest.RunCarrying(t, generatedOf(Batched)) })
}
