package http

import (
	"net/http"

	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
	"ipcbench/transports/http/exchange"
	"ipcbench/transports/http/store"
	"ipcbench/transports/internal/slab"
)

// Header fields of uploads. A body is a receipt, a manifest and the tensors' bytes,
// without gaps.
const (
	fieldReceipt = "Receipt-Bytes"
	fieldRound   = "Job-Round"
	fieldClient  = "Job-Client"
	fieldCache   = "Cache-Bytes" // bytes in the worker's cache
	fieldCached  = "Cache-Tensors"
	fieldUpdate  = "Update-Handle" // the update's location in the lane's slab; the body then has no tensors
)

// jsonUpdate is the body of an upload in JSON. Round and client are in the request's
// head.
type jsonUpdate struct {
	Receipt []byte       `json:"receipt"`
	Tensors []store.JSON `json:"tensors"`
}

// An upload is the parsed head of a request with an update.
type upload struct {
	phase.ID // of the job
	cached   store.CacheStats
	receipt  int         // bytes of the receipt, at the body's start
	table    int         // bytes of the manifest after the receipt
	length   int         // bytes of the body
	shared   bool        // the update is in the lane's slab, not in the body
	handle   slab.Handle // location in the slab, if shared
	read     func(*server, *exchange.Exchange, upload, *tensor.Package) error
}

// results accepts the update of the dispatched job, from the lane's slab or from the
// body. It reads nothing of the body until all of the head is checked and the lane is
// known to expect this update.
func (s *server) results(x *exchange.Exchange, l *lane) error {
	u, err := s.uploadOf(x, l)
	if err != nil {
		l.mail.Refused(err)
		return err
	}
	p, reason, err := l.begin(connOf(x.Request), u)
	if err != nil {
		err = u.refuse(err)
		l.mail.Refused(err)
		return err
	}
	if err := u.read(s, x, u, p); err != nil {
		err = exchange.Refuse(http.StatusBadRequest, "update: %w", exchange.Broken(err))
		l.abandon(p, err)
		return err
	}
	d := driver.Delivered{Handle: driver.All(p)}
	if !u.shared {
		d = driver.Delivered{Body: driver.All(p)}
		s.c.fellBack(s.o.Rec, reason, p.Len())
	}
	// Deliver only after everything about the update is recorded, because the round may
	// end as soon as the update is collected.
	if err := l.deliver(p, d, u.cached); err != nil {
		return u.refuse(err)
	}
	return x.ReplyEmpty()
}

// refuse returns the answer to an upload that the lane does not expect.
func (u upload) refuse(err error) error {
	return exchange.Refuse(http.StatusConflict, "lane %d: round %d, client %d: %w", u.Lane, u.Round, u.Client, err)
}

// uploadOf parses and checks the head of x, including the body's length.
func (s *server) uploadOf(x *exchange.Exchange, l *lane) (u upload, err error) {
	number := func(name string, limit int) int { // of a required header field
		n, wrong := exchange.ParseCount(x.Header.Get(name), uint64(limit))
		if wrong != nil && err == nil {
			err = exchange.Refuse(http.StatusBadRequest, "%s: %w", name, wrong)
		}
		return int(n)
	}
	u.ID = phase.ID{Lane: l.n, Round: number(fieldRound, 1<<40), Client: number(fieldClient, 1<<40)}
	u.cached = store.CacheStats{Tensors: number(fieldCached, 1<<40), Bytes: number(fieldCache, 1<<60)}
	if err != nil {
		return u, err
	}
	if x.IsJSON() {
		u.read = (*server).readJSON
		u.length, err = x.Length(maxReceipt/3*4 + store.JSONLimit(s.o.Up.Len(), s.o.Up.Payload()))
		return u, err
	}
	u.read = (*server).readRaw
	table, least, most := 2*len(s.manifests.up.Bytes), 0, s.o.Up.Payload()
	if !s.o.Up.Var() {
		least = most
	}
	if h := x.Header.Get(fieldUpdate); h != "" {
		if u.handle, err = store.Handle(h).Decode(); err != nil {
			return u, exchange.Refuse(http.StatusBadRequest, "%s: %w", fieldUpdate, err)
		}
		if u.shared, least, most = true, 0, 0; !s.o.Up.Var() {
			table = 0
		}
	}
	if u.receipt, u.table = number(fieldReceipt, maxReceipt), number(store.FieldTable, table); err != nil {
		return u, err
	}
	if u.length, err = x.Length(u.receipt + u.table + most); err == nil && u.length < u.receipt+u.table+least {
		err = exchange.Refuse(http.StatusBadRequest, "body of %d bytes is too short for a receipt of %d, a table of %d and tensors of %d",
			u.length, u.receipt, u.table, least)
	}
	return u, err
}

// readRaw reads the receipt, manifest and tensors of an update into p. If the update is
// in the lane's slab, the body has only the receipt, and the manifest if lengths vary.
// It reads the bodies of worker.uploadRaw.
func (s *server) readRaw(x *exchange.Exchange, u upload, p *tensor.Package) (err error) {
	defer s.o.Rec.Begin(phase.Read, u.ID).End()
	// The transport owns the receipt's memory, because users do not set the receipt of a
	// collected update.
	if p.Receipt, err = x.Read(u.receipt, p.Receipt); err != nil {
		return err
	}
	up, got := s.manifests.up, s.scratch.Get().(*[]byte)
	defer s.scratch.Put(got)
	if !u.shared || s.o.Up.Var() {
		err = up.Read(x.Body, u.table, up.All, p, got)
	}
	if err != nil || u.shared {
		return err
	}
	return store.ReadTensors(x.Body, u.length-u.receipt-u.table, up.All, p, got)
}

// readJSON reads the receipt and tensors of an update in JSON into p. It reads the
// bodies of worker.uploadJSON.
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
	if err := checkReceipt("receipt", got.Receipt); err != nil {
		return err
	}
	p.Receipt = append(p.Receipt[:0], got.Receipt...)
	if err := s.manifests.up.FromJSON(p, s.manifests.up.All, got.Tensors); err != nil {
		return err
	}
	s.copied.Add(p.Payload())
	return nil
}
