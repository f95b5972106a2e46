package http

import (
	"fmt"
	"net/http"

	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports/http/exchange"
	"ipcbench/transports/http/store"
	"ipcbench/transports/internal/slab"
)

// Header fields of uploads. A body is a receipt, a manifest and the tensors' bytes,
// one directly after another.
const (
	fieldReceipt = "Receipt-Bytes"
	fieldRound   = "Job-Round"
	fieldClient  = "Job-Client"
	fieldCache   = "Cache-Bytes" // what the worker's cache holds
	fieldCached  = "Cache-Tensors"
	fieldUpdate  = "Update-Handle" // where in the lane's slab the update lies, which is not in the body then
)

// jsonUpdate is the body of an upload in JSON. Whose it is stands in the head.
type jsonUpdate struct {
	Receipt []byte       `json:"receipt"`
	Tensors []store.JSON `json:"tensors"`
}

// An upload is what the head of a worker's answer to a job says.
type upload struct {
	phase.ID // the job's
	cached   store.CacheStats
	receipt  int         // bytes at the body's front
	length   int         // of the body
	handle   slab.Handle // of the update, in the lane's slab; zero if it is in the body
	read     func(*server, *exchange.Exchange, upload, *tensor.Package) error
}

// results takes the update of the job that is out: from the lane's slab, or from
// the body into its place. Nothing of the body is read before all that the head
// says fits, and the lane waits for it.
func (s *server) results(x *exchange.Exchange) error {
	l, err := s.laneOf(x)
	if err != nil {
		return err
	}
	u, err := s.uploadOf(x, l)
	if err != nil {
		return err
	}
	p, reason, err := l.begin(connOf(x.Request), u)
	if err != nil {
		return u.refuse(err)
	}
	if err := u.read(s, x, u, p); err != nil {
		err = exchange.Refuse(http.StatusBadRequest, "update of round %d, client %d: %w", u.Round, u.Client, exchange.Broken(err))
		l.abandon(p, err)
		return err
	}
	if u.handle != (slab.Handle{}) {
		s.count.handleTensors.Add(p.Len())
		s.count.handleBytes.Add(s.o.Up.Payload())
	} else {
		s.count.bodyTensors.Add(p.Len())
		s.count.bodyBytes.Add(s.o.Up.Payload())
		s.count.fallback.add(reason, p.Len())
	}
	// This comes last, after all that is recorded of the update: whoever collects it
	// may end the round.
	if err := l.deliver(p, u.cached); err != nil {
		return u.refuse(err)
	}
	return x.ReplyEmpty()
}

// refuse answers an upload that the lane does not expect.
func (u upload) refuse(err error) error {
	return exchange.Refuse(http.StatusConflict, "lane %d: round %d, client %d: %w", u.Lane, u.Round, u.Client, err)
}

// A number is a header field that an upload must have.
type number struct {
	name  string
	value *int
	limit int
}

func numbers(h http.Header, fields ...number) error {
	for _, f := range fields {
		n, err := exchange.ParseCount(h.Get(f.name), uint64(f.limit))
		if err != nil {
			return exchange.Refuse(http.StatusBadRequest, "%s: %w", f.name, err)
		}
		*f.value = int(n)
	}
	return nil
}

// uploadOf returns what the head of x says. The length is what the body has to be.
func (s *server) uploadOf(x *exchange.Exchange, l *lane) (u upload, err error) {
	u.Lane = l.n
	err = numbers(x.Header, number{fieldRound, &u.Round, 1 << 40}, number{fieldClient, &u.Client, 1 << 40},
		number{fieldCached, &u.cached.Tensors, 1 << 40}, number{fieldCache, &u.cached.Bytes, 1 << 60})
	if err != nil {
		return u, err
	}
	if x.IsJSON() {
		u.read = (*server).readJSON
		u.length, err = x.Length(maxReceipt/3*4 + store.JSONLimit(s.o.Up.Len(), s.o.Up.Payload()))
		return u, err
	}
	table := 0
	if err := numbers(x.Header, number{fieldReceipt, &u.receipt, maxReceipt}, number{store.FieldTable, &table, 1 << 40}); err != nil {
		return u, err
	}
	manifest, payload := len(s.manifests.up.Bytes), s.o.Up.Payload()
	u.read = (*server).readRaw
	if h := x.Header.Get(fieldUpdate); h != "" {
		if u.handle, err = store.Handle(h).Decode(); err != nil {
			return u, exchange.Refuse(http.StatusBadRequest, "%s: %w", fieldUpdate, err)
		}
		manifest, payload = 0, 0
		u.read = (*server).readReceipt
	}
	want := u.receipt + manifest + payload
	if u.length, err = x.Length(want); err == nil && (u.length != want || table != manifest) {
		err = exchange.Refuse(http.StatusBadRequest, "body of %d bytes with a table of %d, want %d: receipt %d, table %d, tensors %d",
			u.length, table, want, u.receipt, manifest, payload)
	}
	return u, err
}

// readReceipt reads the receipt of an update. Its memory is the session's own:
// nobody else sets that of an update which was collected.
func (s *server) readReceipt(x *exchange.Exchange, u upload, p *tensor.Package) (err error) {
	p.Receipt, err = x.Read(u.receipt, p.Receipt)
	return err
}

// readRaw reads receipt, manifest and tensors of an update. Its mirror image is
// worker.uploadRaw.
func (s *server) readRaw(x *exchange.Exchange, u upload, p *tensor.Package) error {
	defer s.o.Rec.Begin(phase.Read, u.ID).End()
	if err := s.readReceipt(x, u, p); err != nil {
		return err
	}
	got := s.scratch.Get().(*[]byte)
	defer s.scratch.Put(got)
	up := s.manifests.up
	return store.ReadRaw(x.Body, x.Header, int64(u.length-u.receipt), up.Bytes, up.All, p, got)
}

// readJSON reads receipt and tensors of an update in JSON. Its mirror image is
// worker.uploadJSON.
func (s *server) readJSON(x *exchange.Exchange, u upload, p *tensor.Package) error {
	span := s.o.Rec.Begin(phase.Read, u.ID)
	body, err := x.Read(u.length, nil)
	span.End()
	if err != nil {
		return err
	}
	defer s.o.Rec.Begin(phase.Decode, u.ID).End()
	var got jsonUpdate
	if err := exchange.ParseJSON(body, &got); err != nil {
		return err
	}
	if len(got.Receipt) > maxReceipt {
		return fmt.Errorf("receipt of %d bytes, want %d at most", len(got.Receipt), maxReceipt)
	}
	p.Receipt = append(p.Receipt[:0], got.Receipt...)
	s.count.copied.Add(p.Layout().Payload())
	return s.manifests.up.FromJSON(p, s.manifests.up.All, got.Tensors)
}
