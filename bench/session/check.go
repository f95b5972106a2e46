package session

import (
	"cmp"
	"errors"
	"fmt"

	"ipcbench/bench/result"
	"ipcbench/internal/machine"
	"ipcbench/internal/scratch"
	"ipcbench/tensor"
	"ipcbench/tensor/pages"
	"ipcbench/transports/driver"
)

// Check returns an error if the cell is invalid. It returns an [Unfit] if its transport
// does not support a setting or this machine has too little memory.
func (s Spec) Check() error {
	if err := s.CheckData(); err != nil {
		return err
	}
	need := s.Memory()
	if have, source := machine.MemoryLimit(); have > 0 && need > have {
		return &Unfit{s, fmt.Errorf("needs about %s of memory, but %s has %s: "+
			"choose a smaller model, fewer workers or --depth 1",
			Megabytes(need), source, Megabytes(have))}
	}
	return nil
}

// CheckData returns the errors of [Spec.Check] that do not depend on the hosts of its
// workers.
func (s Spec) CheckData() error {
	if err := s.Validate(); err != nil {
		return err
	}
	if err := cmp.Or(s.checkWorkers(), s.checkPages()); err != nil {
		return &Unfit{s, err}
	}
	if c := s.Variant.Codec(); c.Base() && s.Workers > s.Clients {
		return &Unfit{s, fmt.Errorf("codec %s sends differences from the previous model, which a worker without a client "+
			"in every round does not have: choose --workers %d or --clients %d",
			c, s.Clients, s.Workers)}
	}
	if err := s.Variant.Check(s.Options()); err != nil {
		return &Unfit{s, err}
	}
	return nil
}

// Validate checks the parts of a cell that users can set. Its errors name the flag.
func (s Spec) Validate() error {
	c := s.Cell()
	if err := result.CheckFlags(c); err != nil {
		return err
	}
	for _, named := range []struct{ flag, name string }{
		{"--model", c.Model.Name}, {"--up", s.Update().Name}, {"--transport", c.Variant},
	} {
		if err := result.CheckName(named.name); err != nil {
			return fmt.Errorf("%s: %w: choose another name or path", named.flag, err)
		}
	}
	return cmp.Or(result.Check(c.Setup), c.ValidateHead(), s.checkLink())
}

// Options returns the options that a session of s gives its transport, as far as they are
// known before it starts.
func (s Spec) Options() driver.Options {
	return driver.Options{
		Down: s.Model.Layout, Up: s.Update().Layout, Lanes: s.Workers, Clients: s.Clients, Depth: s.Depth,
		Settings: s.Variant.Settings, Pages: s.Pages,
	}
}

// Megabytes writes a number of bytes for errors.
func Megabytes(n int64) string { return fmt.Sprintf("%d MB (%s)", n/1e6, tensor.FormatBytes(int(n))) }

// isPeer reports whether a program that is no build of ipcbench runs the cell's blocks.
func (s Spec) isPeer() bool {
	_, ok := s.Variant.Subject.(driver.Transport)
	return !ok
}

// checkPages returns an error if this machine cannot give s the pages that it asks for.
func (s Spec) checkPages() error {
	least := min(s.Model.Layout.Size(), s.Update().Layout.Size())
	switch {
	case s.Pages == pages.System:
		return nil
	case s.isPeer():
		return fmt.Errorf("--pages %s: a peer makes its own memory: leave out one of the two", s.Pages)
	case s.Pages == pages.Huge && least < pages.Bytes:
		return fmt.Errorf("--pages huge: %s, which is less than one huge page of %s: choose a larger model",
			tensor.FormatBytes(least), tensor.FormatBytes(pages.Bytes))
	case s.Pages == pages.Huge:
		if err := pages.Available(scratch.SharedMemory); err != nil {
			return fmt.Errorf("--pages huge: %w", err)
		}
	}
	return nil
}

// checkWorkers returns an error if s asks its workers for something that a peer, Python or Go values
// do not support.
func (s Spec) checkWorkers() error {
	peer, c := s.isPeer(), s.Variant.Codec()
	switch {
	case peer && c != nil:
		return fmt.Errorf("codec %s: a peer can only have its own codecs: leave --codec out", c)
	case peer && s.PerProcess != 1:
		return errors.New("a peer has one worker per process: --lanes-per-process must be 1")
	case peer && s.Nested:
		return fmt.Errorf("--nested: peer %s uses its own values: leave out one of the two", s.Variant.Subject.Name())
	case s.Nested && (s.Model.Layout.Var() || s.Update().Layout.Var()):
		return errors.New("--nested: tensors of varying length cannot be nested in Go values: choose another model")
	}
	if s.Language != InPython {
		return nil
	}
	for _, f := range Features() {
		if f.asked != nil && f.asked(s) {
			return errors.New("--language python: " + f.Why)
		}
	}
	return nil
}

// Low estimates of memory without tensors; the server of pickle had 38 to 58 MB resident.
const (
	memoryOfServer = 32 << 20
	memoryOfWorker = 12 << 20
)

// Memory returns a low estimate of the bytes that a session of s needs in all its processes,
// including the harness's own: two models, an update, and the average if updates have
// another layout.
func (s Spec) Memory() int64 {
	held := 2*s.Model.Layout.Size() + s.Update().Layout.Size() + memoryOfServer
	if !s.Inside() {
		held += memoryOfWorker * s.Processes()
	}
	if s.Update() != s.Model {
		held += s.Update().Layout.Size()
	}
	if s.Variant.Codec().Lossy() { // the server's own model, and the update as it must arrive, for proofs
		held += s.Model.Layout.Size() + 2*s.Update().Layout.Size()
	}
	return s.Variant.Footprint(s.Options()) + int64(held)
}
