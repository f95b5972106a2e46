// Package serve is a session for clients that are none of ours: a server which waits
// for whoever joins with the session's secret, and proves what they send. Its workers
// have no control socket: all that they know is a [Contact], and docs/protocol.md.
package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ipcbench/identity"
	"ipcbench/scratch"
	"ipcbench/tensor"
	"ipcbench/tensor/models"
	"ipcbench/trainer"
	"ipcbench/transports"
	"ipcbench/transports/driver"
)

// Options say what is served.
type Options struct {
	Variant  transports.Variant
	Model    *models.Model
	Clients  int // a round
	Lanes    int
	Rounds   int
	Seed     uint64
	Wait     time.Duration   // for each update, and for somebody to join before the first
	Host     string          // where TCP listens: see [driver.Endpoint]
	Insecure bool            // what is not encrypted may leave this machine
	Files    *identity.Files // certificates; nil has the session make its own
}

// spoken are the transports whose protocol docs/protocol.md describes.
var spoken = []string{"grpc-tensor", "grpc-batch", "grpc-stream", "http", "http-shm", "shm-slab"}

// Spoken returns the names of those among all whose protocol that is.
func Spoken(all []driver.Transport) (names []string) {
	for _, t := range all {
		if slices.Contains(spoken, t.Name()) {
			names = append(names, t.Name())
		}
	}
	return names
}

// Check reports why nobody's client but ours could take part in a session of v.
func Check(v transports.Variant) error {
	switch name := v.Transport.Name(); {
	case name == "pickle" || name == "storage":
		return fmt.Errorf("%s encodes with gob, which is Go's alone", name)
	case name == "inproc":
		return errors.New("inproc never leaves its process")
	case !slices.Contains(spoken, name):
		return fmt.Errorf("the protocol of %s is between workers of ours", name)
	case v.Codec() != nil:
		return errors.New("what a codec makes of a tensor is known to our own workers only")
	}
	return nil
}

// A Contact is all that a client has to know, but for the secret, which stands in
// AddressFile behind the address and a "#".
type Contact struct {
	Transport     string        `json:"transport"` // with its settings, as a hello has it
	Address       string        `json:"address"`   // unix:PATH, unixpacket:PATH or tcp:HOST:PORT
	AddressFile   string        `json:"address_file"`
	AuthorityFile string        `json:"authority_file,omitempty"` // with tls=on: of the certificate to trust
	Lanes         int           `json:"lanes"`
	Clients       int           `json:"clients"`
	Rounds        int           `json:"rounds"`
	Seed          uint64        `json:"seed"`
	Model         string        `json:"model"`
	Digest        string        `json:"digest"` // of the tensors: 16 hex digits
	Tensors       []tensor.Spec `json:"tensors"`
}

// A Round is what is known of a round that was served and proved.
type Round struct {
	Number int
	Hash   string          // of the new model: 16 hex digits
	Trips  []time.Duration // of clients, in no order, from the dispatch of a job until its update was here; not of the first of a lane, which somebody had to join
}

// A Session is a server at work. Run is called once, then Close.
type Session struct {
	o       Options
	dir     *scratch.Dir
	at      *driver.Endpoint
	server  *transports.Server
	clients []trainer.Client
	served  []int // updates, by lane
	average *tensor.Average
	chain   *trainer.Reference
}

// Open listens. Clients may join from then on.
func Open(ctx context.Context, o Options) (s *Session, err error) {
	l := o.Model.Layout
	s = &Session{
		o: o, clients: trainer.Roster(o.Clients), served: make([]int, o.Lanes),
		average: tensor.NewAverage(l), chain: trainer.NewReference(l, l, o.Seed),
	}
	if s.dir, err = scratch.New(scratch.Roots()[0]); err != nil {
		return nil, err
	}
	s.at = driver.NewEndpoint(s.dir.Path())
	s.at.Host, s.at.Insecure, s.at.Files = o.Host, o.Insecure, o.Files
	s.server, err = transports.Listen(ctx, o.Variant, s.at, driver.Options{
		Down: l, Up: l, Lanes: o.Lanes, Clients: o.Clients, Depth: 1, Settings: o.Variant.Settings,
	})
	if err != nil {
		return nil, errors.Join(err, s.dir.Close())
	}
	line, err := json.Marshal(map[string]Contact{"contact": s.Contact()})
	if err == nil {
		err = os.WriteFile(s.ContactFile(), append(line, '\n'), 0o600)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close(false))
	}
	return s, nil
}

// ContactFile is where the contact stands too, for those who did not see it printed.
func (s *Session) ContactFile() string { return filepath.Join(s.dir.Path(), "contact.json") }

// Contact returns what clients have to know.
func (s *Session) Contact() Contact {
	l := s.o.Model.Layout
	c := Contact{
		Transport: s.o.Variant.String(), Address: s.at.Addr(), AddressFile: filepath.Join(s.dir.Path(), driver.AddressFile),
		Lanes: s.o.Lanes, Clients: s.o.Clients, Rounds: s.o.Rounds, Seed: s.o.Seed,
		Model: s.o.Model.Name, Digest: fmt.Sprintf("%016x", l.Digest()), Tensors: l.Specs(),
	}
	if s.at.Trust().Authority != nil {
		c.AuthorityFile = filepath.Join(s.dir.Path(), driver.AuthorityFile)
	}
	return c
}

// Run serves all rounds, and calls each after every one of them. Its error names the
// round, the client and what was wrong.
func (s *Session) Run(ctx context.Context, each func(Round)) error {
	model, err := s.server.Reserve()
	if err == nil {
		err = s.o.Model.Init(model, s.o.Seed)
	}
	if err == nil {
		s.chain.Model.CopyFrom(model) // a model may come from a file, which is read once
	}
	for n := 0; n < s.o.Rounds && err == nil; n++ {
		r := &Round{Number: n}
		if model, err = s.round(ctx, r, model); err == nil {
			err = s.chain.Round(ctx, s.clients)
		}
		if err != nil {
			break
		}
		got, want := model.Hash(), s.chain.Model.Hash()
		if got != want {
			return fmt.Errorf("round %d: the new model's hash is %016x, the reference chain has %016x", n, got, want)
		}
		r.Hash = fmt.Sprintf("%016x", got)
		each(*r)
	}
	return err
}

// round has model trained, and returns the next one.
func (s *Session) round(ctx context.Context, r *Round, model *tensor.Package) (*tensor.Package, error) {
	trained, err := s.server.Publish(ctx, model)
	if err != nil {
		return nil, fmt.Errorf("round %d: %w", r.Number, err)
	}
	next, err := s.server.Reserve()
	if err != nil {
		return nil, fmt.Errorf("round %d: %w", r.Number, err)
	}
	total := 0.0
	turns := make([]chan struct{}, len(s.clients)+1) // closed when all clients before are folded
	for i := range turns {
		turns[i] = make(chan struct{})
	}
	for _, c := range s.clients {
		total += c.Weight
	}
	if err := s.average.Begin(next, total); err != nil {
		return nil, err
	}
	close(turns[0])
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var lanes sync.WaitGroup
	var taken atomic.Int64
	trips := make([]time.Duration, len(s.clients)) // 0 is not known
	for lane := range s.o.Lanes {
		lanes.Go(func() {
			for i := int(taken.Add(1)) - 1; i < len(s.clients) && ctx.Err() == nil; i = int(taken.Add(1)) - 1 {
				var err error
				if trips[i], err = s.serve(ctx, r.Number, lane, i, trained, turns); err != nil {
					fail(err) // the first one counts: the others are its consequences
				}
			}
		})
	}
	lanes.Wait()
	r.Trips = slices.DeleteFunc(trips, func(d time.Duration) bool { return d == 0 })
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return next, s.average.Finish()
}

// serve has a client's job done by whoever serves the lane, proves what comes, and
// folds it when it is its turn. It returns how long the client took, if that is known.
func (s *Session) serve(ctx context.Context, round, lane, i int, trained *tensor.Package, turns []chan struct{}) (trip time.Duration, err error) {
	c, began := s.clients[i], time.Now()
	if err := s.server.Dispatch(ctx, lane, driver.Job{Round: round, Client: c.ID, Weight: c.Weight, Device: c.Device, Timed: true}); err != nil {
		return 0, err
	}
	update, err := s.collect(ctx, lane)
	if err != nil {
		return 0, err
	}
	defer update.Release()
	if s.served[lane]++; s.served[lane] > 1 {
		trip = time.Since(began)
	}
	if err := tensor.Prove(update, trained, tensor.Key{Seed: s.o.Seed, Round: round, Client: c.ID}); err != nil {
		return 0, fmt.Errorf("round %d, client %d, lane %d: the update is wrong: %w", round, c.ID, lane, err)
	}
	select {
	case <-turns[i]:
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	defer close(turns[i+1])
	return trip, s.average.Fold(update, c.Weight)
}

// collect waits for the update of a lane, and not for ever.
func (s *Session) collect(ctx context.Context, lane int) (*tensor.Package, error) {
	why := "none ever did on this lane: has a client joined it?"
	if s.served[lane] > 0 {
		why = "the lane's client has gone, or hangs"
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.o.Wait, Late{fmt.Errorf("no update came within %v: %s", s.o.Wait, why)})
	defer cancel()
	return s.server.Collect(ctx, lane)
}

// Late says that somebody was waited for in vain.
type Late struct{ error }

// How long clients may take to leave in order: after the last round, and after an
// error, which they cannot know of.
const (
	leaveWithin = 5 * time.Second
	tellWithin  = 500 * time.Millisecond
)

// Close tells the clients that the session is over, and leaves nothing behind. ended
// says that Run has served all rounds: then a client that does not leave is an error.
func (s *Session) Close(ended bool) error {
	within := tellWithin
	if ended {
		within = max(min(leaveWithin, s.o.Wait), tellWithin)
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), within, fmt.Errorf("not within %v of the end", within))
	defer cancel()
	err := s.server.Shutdown(ctx)
	if !ended {
		err = nil // they were not given the time
	}
	return errors.Join(err, s.dir.Close())
}
