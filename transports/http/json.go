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

// jsonUpdate is the body of an upload in JSON. Whose it is stands in the head.
type jsonUpdate struct {
	Receipt []byte       `json:"receipt"`
	Tensors []jsonTensor `json:"tensors"`
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

// resultsJSON takes an update in JSON. Nothing is read before it is certain that
// the lane waits for it.
func (s *server) resultsJSON(x *exchange, l *lane) error {
	h, err := x.jobHead()
	if err != nil {
		return err
	}
	n, err := x.length(jsonLimit(s.o.Up.Len(), s.o.Up.Payload()))
	if err != nil {
		return err
	}
	p, why, err := l.begin(x.conn(), h.round, h.client)
	if err != nil {
		return l.conflict(h, err)
	}
	if err := s.readJSON(x, l, h, n, p); err != nil {
		l.abandon(p, fmt.Errorf("update of round %d, client %d: %w", h.round, h.client, err))
		return err
	}
	return s.arrived(x, l, p, h, why)
}

// readJSON reads a body of n bytes, receipt and tensors of an update.
func (s *server) readJSON(x *exchange, l *lane, h resultHead, n int, p *tensor.Package) error {
	id := phase.ID{Lane: l.n, Round: h.round, Client: h.client}
	span := s.o.Rec.Begin(phase.Read, id)
	body, err := x.read(n, nil)
	span.End()
	if err != nil {
		return err
	}
	defer s.o.Rec.Begin(phase.Decode, id).End()
	var u jsonUpdate
	if err := parseJSON(body, &u); err != nil {
		return refuse(http.StatusBadRequest, "%w", err)
	}
	if len(u.Tensors) != p.Len() || len(u.Receipt) > maxReceipt {
		return refuse(http.StatusBadRequest, "update has %d tensors and a receipt of %d bytes, want %d and %d at most",
			len(u.Tensors), len(u.Receipt), p.Len(), maxReceipt)
	}
	if err := unpackJSON(p, 0, u.Tensors); err != nil {
		return refuse(http.StatusBadRequest, "%w", err)
	}
	p.Receipt = append(p.Receipt[:0], u.Receipt...)
	s.count.copied.Add(p.Layout().Payload())
	return nil
}
