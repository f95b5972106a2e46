package http

import (
	"errors"
	"testing"

	"ipcbench/internal/reexec"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
	"ipcbench/transports/driver/drivertest"
)

func TestMain(m *testing.M) {
	drivertest.MainWith(m, reexec.Roles{"apart": workApart}, append(presets, New(), Local())...)
}

func TestHTTP(t *testing.T) { drivertest.Run(t, New) }

func TestHTTPShm(t *testing.T) { drivertest.RunSibling(t, Local) }

var presets = []driver.Transport{
	drivertest.Preset(New(), "http-json", driver.Settings{"body": "json", "conn": "per-request", "batch": "3"}),
	drivertest.Preset(New(), "http-tcp", driver.Settings{"network": "tcp", "batch": "2", "cache": "on", "cache-size": "64KiB", "drain": "on"}),
	drivertest.Preset(Local(), "http-shm-off", driver.Settings{"shm": "off"}),
	drivertest.Preset(Local(), "http-shm-small", driver.Settings{"pool": "64KiB", "network": "tcp"}),
	drivertest.Preset(Local(), "http-shm-clone", driver.Settings{"copy": "out", "missing": "50"}),
}

// TestPresets: the suite passes with settings other than the defaults. That takes long.
func TestPresets(t *testing.T) {
	skip.Long(t)
	for _, p := range presets {
		t.Run(p.Name(), func(t *testing.T) { drivertest.Run(t, func() driver.Transport { return p }) })
	}
}

// TestVariants: A12, A32, O25: with every setting, tensors of every type and shape travel
// both ways. If a tensor's length varies, its used rows arrive, whether none, all, more or
// fewer than before. Every tensor is counted once, and every byte at both ends.
func TestVariants(t *testing.T) {
	specs := []tensor.Spec{
		{Name: "tokens", DType: tensor.I32, Shape: []int{1000, 30}, Var: true},
		{Name: "void", DType: tensor.F64, Shape: []int{200, 0}, Var: true},
		{Name: "bytes", DType: tensor.U8, Shape: []int{300}, Var: true},
		{Name: "empty", DType: tensor.F32, Shape: []int{3, 0}}, {Name: "scalar", DType: tensor.F64},
	}
	for _, d := range tensor.DTypes() {
		specs = append(specs, tensor.Spec{Name: d.String(), DType: d, Shape: []int{65, 33}})
	}
	varying := drivertest.Layout(t, specs...)
	set := func(p *tensor.Package, tokens, bytes int) error {
		return errors.Join(p.SetRows(0, tokens), p.SetRows(1, tokens%201), p.SetRows(2, bytes))
	}
	for _, variant := range []string{
		"http", "http:batch=1", "http:batch=5", "http:network=tcp", "http:body=json", "http:body=json:batch=1:network=tcp",
		"http:conn=per-request", "http:conn=per-request:body=json:network=tcp",
		"http:cache=on:cache-size=10KiB", "http:cache=on:body=json", "http:cache=on:drain=on",
		"http-shm", "http-shm:shm=off", "http-shm:network=tcp", "http-shm:pool=64B", "http-shm:pool=40KiB:batch=3", "http-shm:pool=130KiB",
		"http-shm:copy=out", "http-shm:copy=out:pool=120KiB", "http-shm:missing=50", "http-shm:missing=30:copy=out", "http-shm:missing=100",
	} {
		t.Run(variant, func(t *testing.T) {
			r := open(t, variant, varying, 2)
			for round, rows := range [][2]int{{1000, 300}, {0, 0}, {1, 299}, {999, 1}, {128, 127}, {1000, 0}} {
				m, err := r.Server.Reserve(0)
				check.Must(t, errors.Join(err, set(m, rows[0], rows[1])))
				tensor.Fill(m, uint64(round))
				m = check.Value(r.Server.Publish(t.Context(), 0, m))(t)
				for c := range 4 {
					j := driver.Job{Round: round, Client: c}
					u := r.ExchangeBy(c%2, j, func(j driver.Job, model, u *tensor.Package) error {
						check.That(t, model.Hash() == m.Hash() && model.Payload() == m.Payload(), "rows %v: the model came as %d bytes", rows, model.Payload())
						return errors.Join(set(u, rows[1], (rows[0]+c)%301), tensor.Train(u, model, drivertest.Key(j)))
					})
					check.That(t, u.Rows(0) == rows[1] && u.Rows(2) == (rows[0]+c)%301, "rows %v: the update has other rows", rows)
					check.Must(t, tensor.Prove(u, m, drivertest.Key(j)))
					u.Release()
				}
			}
			s, w := r.Counts()
			all := int64(6 * 4 * varying.Len())
			check.Equal(t, w[phase.BodyTensors]+w[phase.HandleTensors], all, "tensors down")
			check.Equal(t, s[phase.BodyTensors]+s[phase.HandleTensors], all, "tensors up")
			check.Equal(t, s[phase.WireReceived], w[phase.WireSent], "bytes received by the server")
			check.Equal(t, w[phase.CacheHits], 0, "hits, and no client was twice in a round:")
		})
	}
}

// TestAllocations: in a steady round no allocation grows with the model.
func TestAllocations(t *testing.T) {
	for _, variant := range []string{"http", "http-shm"} {
		cost := func(tensors, size int) float64 {
			r := open(t, variant, vectors(t, tensors, size), 1)
			return testing.AllocsPerRun(20, func() {
				r.Publish(1)
				r.Prove(0, driver.Job{Round: 1})
			})
		}
		// A growing cost would add 500. Pools add some dozens, because the garbage
		// collector empties them and the race detector drops items on purpose.
		small, large, many := cost(1, 100), cost(1, 4<<20), cost(500, 100)
		check.That(t, max(large, many) <= small+100, "%s: %v allocations with 1 small tensor, %v with 1 of 4 MiB, %v with 500 small ones",
			variant, small, large, many)
	}
}

// TestSettingsTogether: settings that cannot be combined are refused by name.
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
		v, l := parse(t, variant), vectors(t, 1, 1)
		err := v.Check(driver.Options{Down: l, Up: l, Lanes: 1, Depth: 1, Settings: v.Settings})
		check.Ends(t, err, want, variant)
	}
}

// BenchmarkPing measures an empty exchange, the floor of this transport.
func BenchmarkPing(b *testing.B) {
	r := open(b, "http", vectors(b, 1, 1), 1)
	for b.Loop() {
		check.Must(b, r.Workers[0].Ping(b.Context()))
	}
}
