package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports/http/exchange"
)

// Header fields of a single tensor.
const (
	FieldDType = "Tensor-Dtype"
	FieldShape = "Tensor-Shape" // 64,3,7,7; empty for a scalar
)

// Endpoints returns what the store serves.
func (s *Store) Endpoints() []exchange.Endpoint {
	return []exchange.Endpoint{
		{Pattern: "PUT /v1/tensors/{id}", Name: "put", Serve: s.serveTensor(s.servePut)},
		{Pattern: "GET /v1/tensors/{id}", Name: "get", Serve: s.serveTensor(s.serveGet)},
		{Pattern: "DELETE /v1/tensors/{id}", Name: "delete", Serve: s.serveTensor(s.serveDelete)},
		{Pattern: "POST /v1/batch", Name: "batch", Serve: s.serveBatch},
		{Pattern: "POST /v1/clear", Name: "clear", Serve: s.serveClear},
	}
}

// A scratchpad is the memory of one request for tensors, reused.
type scratchpad struct {
	body, manifest []byte
	ids            [][]byte
	leases         []lease
	parts          [][]byte
}

// done ends the use of all tensors.
func (m *scratchpad) done() {
	for _, l := range m.leases {
		l.done()
	}
	clear(m.leases)
	m.leases = m.leases[:0]
}

func (s *Store) pad() *scratchpad { return s.scratch.Get().(*scratchpad) }

// serveTensor serves a request that names a tensor in its path.
func (s *Store) serveTensor(serve func(x *exchange.Exchange, id []byte) error) func(*exchange.Exchange) error {
	return func(x *exchange.Exchange) error {
		id := []byte(x.PathValue("id"))
		if err := CheckID(id); err != nil {
			return exchange.Refuse(http.StatusBadRequest, "%w", err)
		}
		err := serve(x, id)
		switch {
		case errors.Is(err, errUnknown):
			return exchange.Refuse(http.StatusNotFound, "%s: %w", id, err)
		case errors.Is(err, errSession):
			return exchange.Refuse(http.StatusConflict, "%w", err)
		case errors.Is(err, errNoRoom):
			return exchange.Refuse(http.StatusInsufficientStorage, "%w", err)
		}
		return err
	}
}

// A putAnswer describes a tensor, and where it lies for those who share memory
// with the server: that is complete or absent, never half. The caller can pass the
// place on together with the id.
type putAnswer struct {
	ID string `json:"id"`
	Meta
	Pool   *SlabRef `json:"pool,omitempty"`
	Handle Handle   `json:"handle,omitempty"`
	Reason string   `json:"fallback,omitempty"` // why there is no pool
}

// servePut stores one tensor. Nobody sees it before all its bytes are there.
func (s *Store) servePut(x *exchange.Exchange, id []byte) error {
	if s.owns(string(id)) {
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
		s.unreserve(n)
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

// metaFrom returns what header fields say of a tensor of n bytes.
func metaFrom(h http.Header, n int) (m Meta, err error) {
	m = Meta{DType: h.Get(FieldDType), Size: n}
	if m.Shape, err = parseShape(h.Get(FieldShape)); err != nil {
		return m, fmt.Errorf("%s: %w", FieldShape, err)
	}
	if d, err := tensor.ParseDType(strings.ToLower(m.DType)); err == nil {
		m.DType = d.String() // also spelt F32, as safetensors does
	}
	if m, err = m.seal(); err != nil {
		err = fmt.Errorf("%s, %s: %w", FieldDType, FieldShape, err)
	}
	return m, err
}

// receive reads a tensor into the slab, or onto the heap if it cannot lie there.
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
		t.drop() // was never visible
		return nil, err
	}
	return t, nil
}

// serveGet answers with one tensor, decoded.
func (s *Store) serveGet(x *exchange.Exchange, id []byte) error {
	l, err := s.decoded(id)
	if err != nil {
		return fmt.Errorf("%s: %w", id, err)
	}
	x.W.Header().Set(FieldDType, l.meta.DType)
	x.W.Header().Set(FieldShape, formatShape(l.meta.Shape))
	pad := s.pad()
	defer s.scratch.Put(pad)
	defer pad.done()
	pad.manifest, pad.leases = pad.manifest[:0], append(pad.leases[:0], l)
	return pad.send(x)
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

// ids reads a body of ids.
func (m *scratchpad) readIDs(x *exchange.Exchange) (err error) {
	if m.body, err = x.ReadAll(maxBody, m.body); err != nil {
		return err
	}
	if m.ids, err = parseIDs(m.ids[:0], m.body, x.IsJSON()); err != nil {
		return exchange.Refuse(http.StatusBadRequest, "%w", err)
	}
	return nil
}

// serveClear deletes the tensors of all ids that the store knows, and says how
// many those were.
func (s *Store) serveClear(x *exchange.Exchange) error {
	pad := s.pad()
	defer s.scratch.Put(pad)
	if err := pad.readIDs(x); err != nil {
		return err
	}
	n, err := s.remove(pad.ids...)
	if err != nil {
		return exchange.Refuse(http.StatusConflict, "%w", err)
	}
	return x.ReplyJSON(http.StatusOK, struct {
		Cleared int `json:"cleared_count"`
	}{n})
}

// serveBatch answers with the tensors of all ids, in their order, or with the ids
// that it does not know. A request in JSON gets its answer in JSON.
func (s *Store) serveBatch(x *exchange.Exchange) error {
	pad := s.pad()
	defer s.scratch.Put(pad)
	if err := pad.readIDs(x); err != nil {
		return err
	}
	_ = x.Control.SetReadDeadline(time.Time{}) // an answer may take longer than its request
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
	return pad.send(x)
}

// lease finds the tensors of all ids.
func (s *Store) lease(pad *scratchpad) error {
	total := 0
	pad.manifest = pad.manifest[:0]
	var missing exchange.MissingError
	for _, id := range pad.ids {
		l, err := s.find(id)
		if errors.Is(err, errUnknown) {
			missing.IDs = append(missing.IDs, string(id))
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", id, err)
		}
		pad.leases, pad.manifest = append(pad.leases, l), append(pad.manifest, l.meta.line...)
		if total += len(l.data); total > s.o.Answer { // ids may be repeated, but not without end
			return exchange.Refuse(http.StatusRequestEntityTooLarge,
				"batch of %d ids: an answer has %d bytes at most, as many as there can be in the store", len(pad.ids), s.o.Answer)
		}
	}
	if len(missing.IDs) > 0 {
		return exchange.StatusError{Code: http.StatusBadRequest, Err: missing}
	}
	return nil
}

// send answers with the manifest and the tensors, from where they lie. Should the
// memory of one be reused meanwhile, which happens only to those who read a model
// that is not theirs, the body ends short.
func (m *scratchpad) send(x *exchange.Exchange) error {
	m.parts = append(m.parts[:0], m.manifest)
	for _, l := range m.leases {
		m.parts = append(m.parts, l.data)
	}
	defer clear(m.parts)
	return x.Reply(http.StatusOK, exchange.TypeRaw, m.live, m.parts...)
}

// live checks that the bytes which were read of all tensors are theirs.
func (m *scratchpad) live() error {
	for _, l := range m.leases {
		if !l.live() {
			return errors.New("the model was replaced while it was being read")
		}
	}
	return nil
}

// sendJSON answers with the tensors in JSON.
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
