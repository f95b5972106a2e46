package http

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"ipcbench/phase"
	"ipcbench/tensor"
)

// The JSON form of tensors is what reinforcement-learning systems ship between
// their processes today: base64 in JSON, whole in memory at both ends.

// A jsonTensor is a tensor in JSON. encoding/json spells bytes in base64.
type jsonTensor struct {
	Type  string `json:"type"` // always "tensor"
	DType string `json:"dtype"`
	Shape []int  `json:"shape"`
	Data  []byte `json:"data"`
}

// jsonUpdate is an upload in JSON.
type jsonUpdate struct {
	Round   int          `json:"round"`
	Client  int          `json:"client"`
	Receipt []byte       `json:"receipt"`
	Tensors []jsonTensor `json:"tensors"`
	Cache   cacheStats   `json:"cache"`
}

// jsonLimit returns how long the JSON form of n tensors with the given payload
// may be: four bytes for three, and room for names and shapes.
func jsonLimit(tensors, payload int) int {
	return maxReceipt/3*4 + 1<<20 + tensors*(maxDims*20+2*maxID) + (payload+2*tensors)/3*4 + 4*tensors
}

func jsonOf(k kind, data []byte) jsonTensor {
	if k.shape == nil {
		k.shape = []int{}
	}
	return jsonTensor{Type: "tensor", DType: k.dtype, Shape: k.shape, Data: data}
}

// jsonPackage returns the tensors of p.
func jsonPackage(p *tensor.Package) []jsonTensor {
	tensors := make([]jsonTensor, p.Len())
	for i := range tensors {
		s := p.Layout().Spec(i)
		tensors[i] = jsonOf(kind{dtype: s.DType.String(), shape: s.Shape}, p.View(i))
	}
	return tensors
}

// unpackJSON copies tensors to p, from tensor number first on.
func unpackJSON(p *tensor.Package, first int, tensors []jsonTensor) error {
	for i, t := range tensors {
		s := p.Layout().Spec(first + i)
		view := p.View(first + i)
		if t.Type != "tensor" || t.DType != s.DType.String() || !slices.Equal(t.Shape, s.Shape) || len(t.Data) != len(view) {
			return fmt.Errorf("tensor %d is %s %s %v with %d bytes, want %s %v with %d",
				first+i, t.Type, t.DType, t.Shape, len(t.Data), s.DType, s.Shape, len(view))
		}
		copy(view, t.Data)
	}
	return nil
}

// batchJSON answers a batch in JSON.
func (s *server) batchJSON(x *exchange, m *scratchpad) error {
	tensors := make([]jsonTensor, len(m.shards))
	for i, t := range m.shards {
		k, _, err := parseEntry(t.entry)
		if err != nil {
			return err
		}
		tensors[i] = jsonOf(k, t.data)
	}
	body, err := json.Marshal(tensors)
	for _, t := range m.shards {
		if err == nil && !t.live() {
			err = errRetired
		}
	}
	if err != nil {
		return err
	}
	return x.answer(http.StatusOK, typeJSON, body)
}

// resultsJSON takes an update in JSON.
func (s *server) resultsJSON(x *exchange, l *lane) error {
	body, err := x.readAll(jsonLimit(s.o.Up.Len(), s.o.Up.Payload()), nil)
	if err != nil {
		return err
	}
	var u jsonUpdate
	if err := parseJSON(body, &u); err != nil {
		return refuse(http.StatusBadRequest, "%w", err)
	}
	if len(u.Tensors) != s.o.Up.Len() || len(u.Receipt) > maxReceipt {
		return refuse(http.StatusBadRequest, "update has %d tensors, want %d", len(u.Tensors), s.o.Up.Len())
	}
	h := resultHead{round: u.Round, client: u.Client, cache: u.Cache}
	p, why, err := l.begin(u.Round, u.Client)
	if err != nil {
		return l.conflict(h, err)
	}
	span := s.o.Rec.Begin(phase.Decode, phase.ID{Lane: l.n, Round: u.Round, Client: u.Client})
	err = unpackJSON(p, 0, u.Tensors)
	span.End()
	if err != nil {
		l.abandon(p, fmt.Errorf("update of round %d, client %d: %w", u.Round, u.Client, err))
		return refuse(http.StatusBadRequest, "%w", err)
	}
	p.Receipt = append(p.Receipt[:0], u.Receipt...)
	s.count.copied.Add(s.o.Up.Payload())
	return s.arrived(x, l, p, h, why)
}
