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

// A generated transport has the default marshal=generated, and its own name so that worker
// processes find it. TLS is below the messages, so it is tested without.
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

// TestMarshalGenerated: generated messages, with gRPC's own codec and buffers at both ends,
// pass the suite over the same connections. Under the race detector the stream is enough,
// because the three methods share the same memory between goroutines.
func TestMarshalGenerated(t *testing.T) {
	skip.Long(t)
	t.Run("stream", func(t *testing.T) { drivertest.RunCarrying(t, generatedOf(Streaming)) })
	if raceDetector || testing.Short() {
		return
	}
	t.Run("tensor", func(t *testing.T) { drivertest.RunCarrying(t, generatedOf(Unary)) })
	t.Run("batch", func(t *testing.T) { drivertest.RunCarrying(t, generatedOf(Batched)) })
}
