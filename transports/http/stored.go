package http

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"ipcbench/phase"
	"ipcbench/tensor"
)

// tailBytes is how many bytes of a body's end are held back until it is certain
// that all bytes before were those of live shards.
const tailBytes = 64

// missingError lists the ids of a batch that the store does not know.
type missingError struct{ ids []string }

func (e missingError) Error() string {
	return fmt.Sprintf("%d tensors are not in the store", len(e.ids))
}

// A tensorRef describes a stored tensor, and where it lies for those who share
// memory with the server. It is complete or absent, never half.
type tensorRef struct {
	ID       string    `json:"id"`
	DType    string    `json:"dtype"`
	Shape    []int     `json:"shape"`
	Bytes    int       `json:"bytes"`
	Pool     *poolRef  `json:"pool,omitempty"`
	Handle   hexHandle `json:"handle,omitempty"`
	Fallback string    `json:"fallback,omitempty"` // why there is no pool
}

// put stores one tensor. Nobody sees it before all its bytes are there. The
// answer says where it lies, so that whoever is told of the tensor can be told
// that, too.
func (s *server) put(x *exchange) error {
	id := x.PathValue("id")
	if err := checkID([]byte(id)); err != nil {
		return refuse(http.StatusBadRequest, "%w", err)
	}
	if err := s.store.checkPut(id); err != nil {
		return refuse(http.StatusConflict, "%w", err)
	}
	n, err := x.length(s.store.room)
	if err != nil {
		return err
	}
	shape, err := parseShape(x.Header.Get(fieldShape))
	if err != nil {
		return refuse(http.StatusBadRequest, "%s: %w", fieldShape, err)
	}
	k := kind{dtype: x.Header.Get(fieldDType), shape: shape, size: n}
	if d, err := tensor.ParseDType(strings.ToLower(k.dtype)); err == nil {
		k.dtype = d.String() // also spelt F32, as safetensors does
	}
	if err := k.check(); err != nil {
		return refuse(http.StatusBadRequest, "%s, %s: %w", fieldDType, fieldShape, err)
	}
	if err := s.store.reserve(n); err != nil {
		return refuse(http.StatusInsufficientStorage, "%w", err)
	}
	t, err := s.receive(x, k)
	if err != nil {
		s.store.unreserve(n)
		return err
	}
	ref := tensorRef{ID: id, DType: k.dtype, Shape: k.shape, Bytes: n, Fallback: t.why}
	if t.pool != nil {
		ref.Pool, ref.Handle = s.store.pool.ref, encodeHandle(t.handle)
	}
	code := http.StatusOK
	if s.store.put(id, t) {
		code = http.StatusCreated
	}
	return x.answerJSON(code, ref)
}

// receive reads a tensor into the slab, or onto the heap if it cannot lie there.
func (s *server) receive(x *exchange, k kind) (t *single, err error) {
	t = &single{kind: k, entry: k.appendEntry(nil)}
	t.handle, t.data, t.why, err = s.store.pool.reserve(k)
	if err != nil {
		return nil, err
	}
	if t.data == nil {
		t.data, err = x.readAll(k.size, nil)
		return t, err
	}
	t.pool = s.store.pool.pool
	if err = x.readFull(t.data); err == nil {
		err = t.pool.Publish(t.handle)
	}
	if err != nil {
		t.drop() // was never visible
		return nil, err
	}
	return t, nil
}

// get answers with one tensor.
func (s *server) get(x *exchange) error {
	id := []byte(x.PathValue("id"))
	if err := checkID(id); err != nil {
		return refuse(http.StatusBadRequest, "%w", err)
	}
	t, err := s.store.find(id)
	if err != nil {
		return notFound(id, err)
	}
	defer t.done()
	k, _, err := parseEntry(t.entry)
	if err != nil {
		return err
	}
	x.w.Header().Set(fieldDType, k.dtype)
	x.w.Header().Set(fieldShape, formatShape(k.shape))
	m := s.scratch.Get().(*scratchpad)
	defer s.scratch.Put(m)
	m.shards = append(m.shards[:0], t)
	return x.shards(m, nil, len(t.data))
}

func (s *server) delete(x *exchange) error {
	id := []byte(x.PathValue("id"))
	if err := checkID(id); err != nil {
		return refuse(http.StatusBadRequest, "%w", err)
	}
	n, err := s.store.remove(id)
	switch {
	case err != nil:
		return refuse(http.StatusConflict, "%w", err)
	case n == 0:
		return notFound(id, errUnknown)
	}
	return x.empty()
}

func notFound(id []byte, err error) error {
	if errors.Is(err, errUnknown) {
		return refuse(http.StatusNotFound, "%s: %w", id, err)
	}
	return fmt.Errorf("%s: %w", id, err)
}

// batch answers with the tensors of all ids, in their order, or with the ids
// that it does not know. A request in JSON gets its answer in JSON.
func (s *server) batch(x *exchange) error {
	m := s.scratch.Get().(*scratchpad)
	defer s.scratch.Put(m)
	var err error
	if m.body, err = x.readAll(maxControl, m.body); err != nil {
		return err
	}
	_ = x.control.SetReadDeadline(time.Time{}) // an answer may take longer than its request
	if m.ids, err = parseIDs(m.ids[:0], m.body, x.isJSON()); err != nil {
		return refuse(http.StatusBadRequest, "%w", err)
	}
	m.shards, m.table = m.shards[:0], m.table[:0]
	defer m.done()
	var missing missingError
	total, most := 0, s.store.room+s.o.Down.Payload() // ids may be repeated, but not without end
	for _, id := range m.ids {
		t, err := s.store.find(id)
		if errors.Is(err, errUnknown) {
			missing.ids = append(missing.ids, string(id))
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", id, err)
		}
		m.shards, m.table = append(m.shards, t), append(m.table, t.entry...)
		if total += len(t.data); total > most {
			return refuse(http.StatusRequestEntityTooLarge, "batch of %d ids: an answer has %d bytes at most, as many as there can be in the store", len(m.ids), most)
		}
	}
	if len(missing.ids) > 0 {
		return statusError{http.StatusBadRequest, missing}
	}
	span := s.o.Rec.Begin(phase.Send, x.conn().id())
	defer span.End()
	if x.isJSON() {
		return s.batchJSON(x, m)
	}
	h := x.w.Header()
	h.Set(fieldCount, strconv.Itoa(len(m.shards)))
	h.Set(fieldTable, strconv.Itoa(len(m.table)))
	return x.shards(m, m.table, total)
}

// done ends the use of all shards.
func (m *scratchpad) done() {
	for _, t := range m.shards {
		t.done()
	}
	clear(m.shards)
	m.shards = m.shards[:0]
}

// shards answers with a table and the tensors in m.shards, from where they lie.
// Should the memory of one be reused meanwhile, which happens only to those who
// read a model that is not theirs, the body ends short.
func (x *exchange) shards(m *scratchpad, table []byte, total int) error {
	x.head(http.StatusOK, typeRaw, len(table)+total)
	if _, err := x.w.Write(table); err != nil {
		return err
	}
	last := len(m.shards) - 1
	for last >= 0 && len(m.shards[last].data) == 0 {
		last--
	}
	for i, t := range m.shards[:last+1] {
		data, tail := t.data, []byte(nil)
		if i == last {
			tail = m.tail[:copy(m.tail[:], data[max(0, len(data)-tailBytes):])]
			data = data[:len(data)-len(tail)]
		}
		if _, err := x.w.Write(data); err != nil {
			return err
		}
		if i == last {
			for _, t := range m.shards {
				if !t.live() {
					return errRetired
				}
			}
			if _, err := x.w.Write(tail); err != nil {
				return err
			}
		}
	}
	return nil
}

var errRetired = errors.New("the model was replaced while it was being read")

// clear deletes the tensors of all ids that the store knows, and says how many
// those were.
func (s *server) clear(x *exchange) error {
	body, err := x.readAll(maxControl, nil)
	if err != nil {
		return err
	}
	ids, err := parseIDs(nil, body, x.isJSON())
	if err != nil {
		return refuse(http.StatusBadRequest, "%w", err)
	}
	n, err := s.store.remove(ids...)
	if err != nil {
		return refuse(http.StatusConflict, "%w", err)
	}
	return x.answerJSON(http.StatusOK, clearAnswer{Cleared: n})
}

type clearAnswer struct {
	Cleared int `json:"cleared_count"`
}

// statsAnswer is what the server knows of the store and of the workers' caches.
type statsAnswer struct {
	Tensors  int              `json:"tensors"` // that were put
	Bytes    int              `json:"bytes"`   // of these
	Capacity int              `json:"capacity"`
	Model    string           `json:"model,omitempty"` // the ids of its tensors are this, a dot, and 0, 1, …
	Count    int              `json:"model_tensors"`
	Served   map[string]int64 `json:"served"` // requests by endpoint
	Caches   []cacheStats     `json:"caches"` // of each lane, as its last result said
	Open     int              `json:"connections"`
}

func (s *server) stats(x *exchange) error {
	a := statsAnswer{Capacity: s.store.room, Served: map[string]int64{}, Open: s.listener.Count()}
	a.Tensors, a.Bytes = s.store.held()
	if m, err := s.store.current(); err == nil {
		a.Model, a.Count = m.name, m.p.Len()
	}
	for _, e := range s.endpoints {
		a.Served[e.name] = e.served.Load()
	}
	for _, l := range s.lanes {
		l.mu.Lock()
		a.Caches = append(a.Caches, l.cached)
		l.mu.Unlock()
	}
	return x.answerJSON(http.StatusOK, a)
}

// drain makes every worker empty its cache before it works on its next job.
func (s *server) drain(x *exchange) error {
	for _, l := range s.lanes {
		l.mu.Lock()
		l.drain = true
		l.mu.Unlock()
	}
	return x.empty()
}
