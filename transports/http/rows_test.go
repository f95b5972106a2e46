package http

import (
	"errors"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
)

// varying has tensors whose lengths vary, one with rows of no bytes, and one that
// has its length.
func varying(t testing.TB) *tensor.Layout {
	return layout(t,
		tensor.Spec{Name: "tokens", DType: tensor.I32, Shape: []int{1000, 30}, Var: true},
		tensor.Spec{Name: "fixed", DType: tensor.F32, Shape: []int{7}},
		tensor.Spec{Name: "void", DType: tensor.F64, Shape: []int{200, 0}, Var: true},
		tensor.Spec{Name: "bytes", DType: tensor.U8, Shape: []int{300}, Var: true},
	)
}

func setRows(t testing.TB, p *tensor.Package, tokens, bytes int) {
	t.Helper()
	check.Must(t, errors.Join(p.SetRows(0, tokens), p.SetRows(2, tokens%201), p.SetRows(3, bytes)))
}

// O25. A tensor whose length varies travels with the rows that are in use, whichever
// way: none, one, all, more and fewer than before.
func TestRows(t *testing.T) {
	for _, variant := range []string{
		"http", "http:batch=1", "http:body=json", "http:cache=on", "http:conn=per-request",
		"http-shm", "http-shm:shm=off", "http-shm:pool=64B", "http-shm:pool=130KiB",
		"http-shm:copy=out", "http-shm:missing=50", "http-shm:missing=50:copy=out",
	} {
		t.Run(variant, func(t *testing.T) {
			r := open(t, variant, varying(t), 1)
			for n, rows := range [][2]int{{1000, 300}, {0, 0}, {1, 299}, {999, 1}, {128, 127}, {1000, 0}} {
				m, err := r.s.Reserve()
				check.Must(t, err)
				setRows(t, m, rows[0], rows[1])
				tensor.Fill(m, uint64(n))
				_, err = r.s.Publish(t.Context(), m)
				check.Must(t, err)
				check.Must(t, r.s.Dispatch(t.Context(), 0, driver.Job{Round: n}))
				_, got, err := r.workers[0].Receive(t.Context())
				check.Must(t, err)
				if got.Hash() != m.Hash() || got.Payload() != m.Payload() {
					t.Errorf("rows %v: a model of %d bytes came as %d bytes", rows, m.Payload(), got.Payload())
				}
				u, err := r.workers[0].Reserve()
				check.Must(t, err)
				setRows(t, u, rows[1], rows[0]%301)
				tensor.Fill(u, uint64(n+100))
				want := u.Hash()
				check.Must(t, r.workers[0].Submit(t.Context(), u))
				p, err := r.s.Collect(t.Context(), 0)
				check.Must(t, err)
				if p.Hash() != want {
					t.Errorf("rows %v: an update of %d bytes came as %d bytes", rows, u.Payload(), p.Payload())
				}
				p.Release()
			}
		})
	}
}
