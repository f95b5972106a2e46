package http

import (
	"fmt"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports"
	"ipcbench/transports/driver"
	"ipcbench/transports/driver/drivertest"
)

func TestHTTP(t *testing.T) { drivertest.Run(t, New) }

func TestHTTPShm(t *testing.T) { drivertest.RunSibling(t, Local) }

// A preset is a transport with other defaults, for the suite that runs with
// defaults.
type preset struct {
	transport
	name     string
	defaults map[string]string
}

func (p preset) Name() string { return p.name }

func (p preset) Settings() []driver.Setting {
	all := p.transport.Settings()
	for i, s := range all {
		if v, ok := p.defaults[s.Name]; ok {
			all[i].Default = v
		}
	}
	return all
}

func presets() []driver.Transport {
	plain, local := New().(transport), Local().(transport)
	return []driver.Transport{
		preset{plain, "http-json", map[string]string{"body": "json", "conn": "per-request", "batch": "3"}},
		preset{plain, "http-tcp", map[string]string{"network": "tcp", "batch": "2", "cache": "on", "cache-size": "64KiB", "drain": "on"}},
		preset{local, "http-shm-off", map[string]string{"shm": "off"}},
		preset{local, "http-shm-small", map[string]string{"pool": "64KiB", "network": "tcp"}},
		preset{local, "http-shm-clone", map[string]string{"copy": "out", "missing": "50"}},
	}
}

// The whole suite for what is not the default takes its time.
func TestPresets(t *testing.T) {
	skip.Long(t)
	for _, p := range presets() {
		t.Run(p.Name(), func(t *testing.T) { drivertest.Run(t, func() driver.Transport { return p }) })
	}
}

// A32, A12: every setting carries every type and shape, round after round, with
// more lanes than one.
func TestVariants(t *testing.T) {
	specs := []tensor.Spec{{Name: "empty", DType: tensor.F32, Shape: []int{3, 0}}, {Name: "scalar", DType: tensor.F64}}
	for _, d := range tensor.DTypes() {
		specs = append(specs, tensor.Spec{Name: d.String(), DType: d, Shape: []int{65, 33}})
	}
	l := layout(t, specs...)
	for _, variant := range []string{
		"http", "http:batch=5", "http:network=tcp", "http:body=json", "http:body=json:batch=1:network=tcp",
		"http:conn=per-request", "http:conn=per-request:body=json:network=tcp",
		"http:cache=on:cache-size=10KiB", "http:cache=on:body=json",
		"http-shm", "http-shm:shm=off", "http-shm:network=tcp", "http-shm:pool=64B", "http-shm:pool=40KiB:batch=3", "http-shm:pool=120KiB",
		"http:cache=on:drain=on", "http-shm:copy=out", "http-shm:copy=out:pool=120KiB", "http-shm:missing=50", "http-shm:missing=30:copy=out", "http-shm:missing=100",
	} {
		t.Run(variant, func(t *testing.T) {
			r := open(t, variant, l, 2)
			for round := range 4 {
				m := r.publish(uint64(round))
				for c := range 4 {
					r.exchange(c%2, driver.Job{Round: round, Client: c}, m)
				}
			}
			moved, sent := int64(0), int64(0)
			for n := range r.workers {
				c := r.counts(n)
				moved += c[phase.BodyTensors] + c[phase.HandleTensors]
				sent += c[phase.WireSent]
				check.That(t, c[phase.CacheHits] <= 0, "cache hits: %d, and no client was twice in a round", c[phase.CacheHits])
			}
			s := r.counts(-1)
			if up := s[phase.BodyTensors] + s[phase.HandleTensors]; moved != 16*int64(l.Len()) || up != moved {
				t.Errorf("%d tensors went down and %d up, want %d", moved, up, 16*l.Len())
			}
			check.Equal(t, s[phase.WireReceived], sent, "workers sent", sent, "bytes, the server received")
		})
	}
}

// In a steady round nothing is allocated that grows with the model.
func TestAllocations(t *testing.T) {
	for _, variant := range []string{"http", "http-shm"} {
		cost := func(tensors, size int) float64 {
			r := open(t, variant, vectors(t, tensors, size), 1)
			round := 0
			m := r.publish(1)
			return testing.AllocsPerRun(20, func() {
				round++
				r.exchange(0, driver.Job{Round: round}, m)
				m = r.publish(uint64(round))
			})
		}
		small, large, many := cost(1, 100), cost(1, 4<<20), cost(500, 100)
		t.Log(variant, ":", small, "allocations a round with 1 small tensor,", large, "with 1 of 4 MiB,", many, "with 500 small ones")
		// What grew would grow by 500. Pools that the collector empties, and under the
		// race detector lose things on purpose, take some dozens.
		if most := small + 100; large > most || many > most {
			t.Errorf("%s: %s", variant, fmt.Sprintf("%v allocations with 1 small tensor, %v with 1 of 4 MiB, %v with 500 small ones", small, large, many))
		}
	}
}

// Settings that mean nothing together are refused by name.
func TestSettingsTogether(t *testing.T) {
	for variant, want := range map[string]string{
		"http:drain=on":                "drain=on needs cache=on",
		"http-shm:missing=5:shm=off":   "missing=5 needs shm=on and pool=0B",
		"http-shm:missing=5:pool=1MiB": "missing=5 needs shm=on and pool=0B",
		"http:drain=on:cache=on":       "",
		"http-shm:missing=5:copy=out":  "",
		"http-shm:copy=out:shm=off":    "copy=out needs shm=on",
		"http-shm:copy=out:pool=64B":   "",
	} {
		v, err := transports.Parse(variant, []driver.Transport{New(), Local()})
		check.Must(t, err)
		err = v.Check(driver.Options{Down: vectors(t, 1, 1), Up: vectors(t, 1, 1), Lanes: 1, Depth: 1, Settings: v.Settings})
		if want != "" {
			wantError(t, variant, err, want)
		} else {
			check.Must(t, err)
		}
	}
}

// The floor of this transport: an empty exchange.
func BenchmarkPing(b *testing.B) {
	r := open(b, "http", vectors(b, 1, 1), 1)
	for b.Loop() {
		check.Must(b, r.workers[0].Ping(b.Context()))
	}
}

// A worker of a lane that is taken hears it in a line.
func TestTaken(t *testing.T) {
	r := open(t, "http", layout(t, tensor.Spec{Name: "a", DType: tensor.U8, Shape: []int{3}}), 1)
	_, err := dialLane(t.Context(), r.v, r.e, 0, r.o)
	want := "http: lane 0: dial: POST /v1/lanes/0: 409 Conflict: lane 0: the lane has a worker"
	check.That(t, err != nil && err.Error() == want, "got %v, want %q", err, want)
}
