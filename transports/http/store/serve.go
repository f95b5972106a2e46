package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports/http/exchange"
)

// Header fields that describe a single tensor.
const (
	FieldDType = "Tensor-Dtype"
	FieldShape = "Tensor-Shape" // such as 64,3,7,7; empty for a scalar
)

// Endpoints returns the endpoints of the store.
func (s *Store) Endpoints() []exchange.Endpoint {
	return []exchange.Endpoint{
		{Pattern: "PUT /v1/tensors/{id}", Name: "put", Serve: s.serveTensor(s.servePut)},
		{Pattern: "GET /v1/tensors/{id}", Name: "get", Serve: s.serveTensor(s.serveGet)},
		{Pattern: "DELETE /v1/tensors/{id}", Name: "delete", Serve: s.serveTensor(s.serveDelete)},
		{Pattern: "POST /v1/batch", Name: "batch", Serve: s.serveBatch},
		{Pattern: "POST /v1/clear", Name: "clear", Serve: s.serveClear},
	}
}

// A scratchpad is the reusable memory of one request.
type scratchpad struct {
	body, manifest []byte
	ids            [][]byte
	leases         []lease
	parts          [][]byte
}

func (m *scratchpad) done() {
	for _, l := range m.leases {
		l.done()
	}
	clear(m.leases)
	m.leases = m.leases[:0]
}

func (s *Store) pad() *scratchpad { return s.scratch.Get().(*scratchpad) }

// serveTensor returns a handler that calls serve with the id in the request's path.
func (s *Store) serveTensor(serve func(x *exchange.Exchange, id []byte) error) func(*exchange.Exchange) error {
	return func(x *exchange.Exchange) error {
		id := []byte(x.PathValue("id"))
		if err := CheckID(id); err != nil {
			return exchange.Refuse(http.StatusBadRequest, "%w", err)
		}
		if err := serve(x, id); err != nil {
			return fmt.Errorf("%s: %w", id, err)
		}
		return nil
	}
}

// A putAnswer describes a stored tensor and, for peers that share memory with the
// server, its location, which the client can pass on with the id. The tensor there is
// complete, or the handle is stale.
type putAnswer struct {
	ID string `json:"id"`
	Meta
	Pool   *SlabRef `json:"pool,omitempty"`
	Handle Handle   `json:"handle,omitempty"`
	Reason string   `json:"fallback,omitempty"` // why there is no pool
}

// servePut stores one tensor. It becomes visible only when all its bytes have arrived.
func (s *Store) servePut(x *exchange.Exchange, id []byte) error {
	if strings.HasPrefix(string(id), s.o.Prefix) {
		return errSession
	}
	n, err := x.Length(s.o.Room)
	if err != nil {
		return err
	}
	m, err := metaFrom(x.Header, n)
	if err != nil {
		return exchange.Refuse(http.StatusBadRequest, "%w", err)
	}
	if err := s.reserve(n); err != nil {
		return err
	}
	t, err := s.receive(x, m)
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.count--
		s.bytes -= n
		return err
	}
	a := putAnswer{ID: string(id), Meta: m, Reason: t.reason}
	if t.pool != nil {
		a.Pool, a.Handle = s.ref, EncodeHandle(t.handle)
	}
	code := http.StatusOK
	if s.add(a.ID, t) {
		code = http.StatusCreated
	}
	return x.ReplyJSON(code, a)
}

// metaFrom parses the header fields that describe a tensor of n bytes.
func metaFrom(h http.Header, n int) (m Meta, err error) {
	m = Meta{DType: h.Get(FieldDType), Size: n}
	if m.Shape, err = parseShape(h.Get(FieldShape)); err != nil {
		return m, fmt.Errorf("%s: %w", FieldShape, err)
	}
	if d, err := tensor.ParseDType(strings.ToLower(m.DType)); err == nil {
		m.DType = d.String() // accepts safetensors' spelling, such as F32
	}
	if m, err = m.seal(); err != nil {
		err = fmt.Errorf("%s, %s: %w", FieldDType, FieldShape, err)
	}
	return m, err
}

// receive reads a tensor into the slab, or onto the heap if the slab cannot hold it.
func (s *Store) receive(x *exchange.Exchange, m Meta) (*stored, error) {
	t, err := s.memory(m)
	if err != nil {
		return nil, err
	}
	if t.pool == nil {
		t.data, err = x.Read(m.Size, nil)
		return t, err
	}
	if err = x.ReadFull(t.data); err == nil {
		err = t.pool.Publish(t.handle)
	}
	if err != nil {
		t.drop() // no reader has seen it
		return nil, err
	}
	return t, nil
}

// serveGet answers with one tensor. If it is encoded, it is decoded first.
func (s *Store) serveGet(x *exchange.Exchange, id []byte) error {
	l, err := s.find(id, true)
	if err != nil {
		return err
	}
	x.W.Header().Set(FieldDType, l.meta.DType)
	x.W.Header().Set(FieldShape, formatShape(l.meta.Shape))
	defer l.done()
	return x.Reply(http.StatusOK, exchange.TypeRaw, l.live, l.data)
}

func (s *Store) serveDelete(x *exchange.Exchange, id []byte) error {
	n, err := s.remove(id)
	if err == nil && n == 0 {
		err = errUnknown
	}
	if err != nil {
		return err
	}
	return x.ReplyEmpty()
}

func (m *scratchpad) readIDs(x *exchange.Exchange) (err error) {
	if m.body, err = x.ReadAll(maxBody, m.body); err != nil {
		return err
	}
	if m.ids, err = parseIDs(m.ids[:0], m.body, x.IsJSON()); err != nil {
		return exchange.Refuse(http.StatusBadRequest, "%w", err)
	}
	return nil
}

// serveClear deletes the tensors with the given ids, and answers with the number that
// existed.
func (s *Store) serveClear(x *exchange.Exchange) error {
	pad := s.pad()
	defer s.scratch.Put(pad)
	if err := pad.readIDs(x); err != nil {
		return err
	}
	n, err := s.remove(pad.ids...)
	if err != nil {
		return err
	}
	return x.ReplyJSON(http.StatusOK, struct {
		Cleared int `json:"cleared_count"`
	}{n})
}

// serveBatch answers with the tensors of all ids, in that order, or with an error that
// lists the unknown ids. A request in JSON is answered in JSON.
func (s *Store) serveBatch(x *exchange.Exchange) error {
	pad := s.pad()
	defer s.scratch.Put(pad)
	if err := pad.readIDs(x); err != nil {
		return err
	}
	defer pad.done()
	if err := s.lease(pad); err != nil {
		return err
	}
	defer x.Begin(phase.Send).End()
	if x.IsJSON() {
		return pad.sendJSON(x)
	}
	x.W.Header().Set(FieldCount, strconv.Itoa(len(pad.leases)))
	x.W.Header().Set(FieldTable, strconv.Itoa(len(pad.manifest)))
	// The tensors are not copied. If a model is replaced meanwhile, the body ends short; only
	// clients without a job of that model can see this.
	pad.parts = append(pad.parts[:0], pad.manifest)
	for _, l := range pad.leases {
		pad.parts = append(pad.parts, l.data)
	}
	defer clear(pad.parts)
	return x.Reply(http.StatusOK, exchange.TypeRaw, pad.live, pad.parts...)
}

// lease leases the tensors of all ids in pad, and collects their manifest.
func (s *Store) lease(pad *scratchpad) error {
	total := 0
	pad.manifest = pad.manifest[:0]
	var missing exchange.MissingError
	for _, id := range pad.ids {
		l, err := s.find(id, false)
		if errors.Is(err, errUnknown) {
			missing.IDs = append(missing.IDs, string(id))
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", id, err)
		}
		pad.leases, pad.manifest = append(pad.leases, l), append(pad.manifest, l.meta.line...)
		if total += len(l.data); total > s.o.Answer { // because ids may be repeated
			return exchange.Refuse(http.StatusRequestEntityTooLarge,
				"batch of %d ids: an answer must have at most %d bytes, as many as the store can hold", len(pad.ids), s.o.Answer)
		}
	}
	if len(missing.IDs) > 0 {
		return exchange.StatusError{Code: http.StatusBadRequest, Err: missing}
	}
	return nil
}

// live returns an error if the memory of a tensor was reused before it was read.
func (m *scratchpad) live() error {
	for _, l := range m.leases {
		if err := l.live(); err != nil {
			return err
		}
	}
	return nil
}

func (m *scratchpad) sendJSON(x *exchange.Exchange) error {
	tensors := make([]JSON, len(m.leases))
	for i, l := range m.leases {
		tensors[i] = jsonOf(l.meta, l.data)
	}
	body, err := json.Marshal(tensors)
	if err == nil {
		err = m.live()
	}
	if err != nil {
		return err
	}
	return x.Reply(http.StatusOK, exchange.TypeJSON, nil, body)
}
