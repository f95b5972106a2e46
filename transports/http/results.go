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
	table    int         // bytes of the manifest behind it
	length   int         // of the body
	shared   bool        // the update lies in the lane's slab, and is not in the body
	handle   slab.Handle // where
	read     func(*server, *exchange.Exchange, upload, *tensor.Package) error
}

// results takes the update of the job that is out: from the lane's slab, or from
// the body into its place. Nothing of the body is read before all that the head
// says fits, and the lane waits for it.
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
	// This comes last, after all that is recorded of the update: whoever collects it
	// may end the round.
	if err := l.deliver(p, d, u.cached); err != nil {
		return u.refuse(err)
	}
	return x.ReplyEmpty()
}

// refuse answers an upload that the lane does not expect.
func (u upload) refuse(err error) error {
	return exchange.Refuse(http.StatusConflict, "lane %d: round %d, client %d: %w", u.Lane, u.Round, u.Client, err)
}

// uploadOf returns what the head of x says. The length is what the body has to be.
func (s *server) uploadOf(x *exchange.Exchange, l *lane) (u upload, err error) {
	number := func(name string, limit int) int { // of a header field that has to be there
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
		err = exchange.Refuse(http.StatusBadRequest, "body of %d bytes, want a receipt of %d, a table of %d and tensors of %d",
			u.length, u.receipt, u.table, least)
	}
	return u, err
}

// readRaw reads receipt, manifest and tensors of an update; of one in the lane's
// slab, what is not there: the receipt, and where lengths vary the manifest. Its
// mirror image is worker.uploadRaw.
func (s *server) readRaw(x *exchange.Exchange, u upload, p *tensor.Package) (err error) {
	defer s.o.Rec.Begin(phase.Read, u.ID).End()
	// The receipt's memory is the session's own: nobody else sets that of an update
	// which was collected.
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
	return store.ReadTensors(x.Body, u.length-u.receipt-u.table, up.All, p)
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
