package door_test

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ipcbench/phase"
	"ipcbench/transports/internal/door"
)

// bound is when a wait in a test becomes a failure.
const bound = 20 * time.Second

// A session is a listener for one lane that admits whoever writes a byte, and
// writes it back.
type session struct {
	*door.Listener
	rec *phase.Recorder
	in  chan *door.Conn // that were admitted
}

func open(t *testing.T, patience time.Duration) *session {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	s := &session{rec: phase.NewRecorder(1), in: make(chan *door.Conn, 10)}
	s.Listener = door.New(l, 1, patience, s.rec, func(c *door.Conn) net.Conn { return c })
	over := make(chan struct{})
	go func() {
		defer close(over)
		for {
			c, err := s.Accept()
			if err != nil {
				return
			}
			go s.serve(c.(*door.Conn))
		}
	}()
	t.Cleanup(func() {
		s.Dismiss()
		_ = s.Close() // a test may have closed it
		<-over
	})
	return s
}

func (s *session) serve(c *door.Conn) {
	defer c.Close()
	b := make([]byte, 1)
	for first := true; ; first = false {
		if _, err := c.Read(b); err != nil {
			return
		}
		if c.Admit() != first {
			b[0] = '!'
		}
		if first {
			s.in <- c
		}
		if _, err := c.Write(b); err != nil {
			return
		}
	}
}

// dial returns a connection to the session on which nothing was said.
func (s *session) dial(t *testing.T) net.Conn {
	t.Helper()
	c, err := net.Dial("unix", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(bound)); err != nil {
		t.Fatal(err)
	}
	return c
}

// talk shows the secret on c, and fails unless that is answered.
func talk(t *testing.T, c net.Conn) {
	t.Helper()
	b := []byte("s")
	if _, err := c.Write(b); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, b); err != nil || string(b) != "s" {
		t.Fatalf("got %q, %v, want the byte back", b, err)
	}
}

// ended fails unless the session has closed c.
func ended(t *testing.T, what string, c net.Conn) {
	t.Helper()
	if n, err := c.Read(make([]byte, 1)); n > 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%s: got %d bytes, %v, want the end", what, n, err)
	}
}

// A thousand strangers who say nothing are few at any time, and each of them has
// the time to show the secret, however many come after it.
func TestStrangersAreFew(t *testing.T) {
	s := open(t, time.Hour) // time ends nobody here
	known := s.dial(t)
	talk(t, known)
	first := s.dial(t)
	made := make(chan []net.Conn, 1)
	go func() {
		var all []net.Conn
		defer func() { made <- all }()
		for range 1000 {
			c, err := net.Dial("unix", s.Addr().String())
			if err != nil {
				t.Error(err)
				return
			}
			all = append(all, c)
		}
	}()
	late := s.dial(t) // amid them
	talk(t, late)
	for _, c := range <-made {
		defer c.Close()
	}
	last := s.dial(t)
	talk(t, last)
	if n, most := s.Count(), 256+4+3; n > most {
		t.Errorf("%d connections are open, want %d at most", n, most)
	}
	ended(t, "the first stranger", first)
	for _, c := range []net.Conn{known, late, last} {
		talk(t, c)
	}
}

// A stranger's connection ends when its time is up, and that of whoever has shown
// the secret does not.
func TestStrangersAreBrief(t *testing.T) {
	s := open(t, 100*time.Millisecond)
	var known net.Conn
	for admitted := false; !admitted; { // on a slow machine its time may be up
		known = s.dial(t)
		b := []byte("s")
		_, err := known.Write(b)
		if err == nil {
			_, err = io.ReadFull(known, b)
		}
		admitted = err == nil
	}
	for range 3 { // each takes as long as a stranger has
		ended(t, "a stranger", s.dial(t))
	}
	talk(t, known)
}

// Dismiss ends all but those that are kept, and those that come later.
func TestDismiss(t *testing.T) {
	s := open(t, time.Hour)
	silent, known, kept := s.dial(t), s.dial(t), s.dial(t)
	talk(t, known)
	<-s.in
	talk(t, kept)
	(<-s.in).Keep()
	s.Dismiss()
	ended(t, "a stranger", silent)
	ended(t, "one who is not kept", known)
	ended(t, "one who comes later", s.dial(t))
	talk(t, kept)
	if got := s.rec.Counts(); got[phase.WireSent] != 3 || got[phase.WireReceived] != 3 {
		t.Errorf("counted %v, want 3 bytes each way", got)
	}
}

// The file is whole from the first moment, its owner's alone, and taken from no
// other session; nothing is left of it.
func TestAnnounce(t *testing.T) {
	const name = "x-address"
	dir := t.TempDir()
	path, addr := filepath.Join(dir, name), "unix:/s#"+strings.Repeat("SECRET", 1000)
	read := make(chan string, 1)
	go func() { // beside the writer
		for end := time.Now().Add(bound); time.Now().Before(end); {
			if text, err := os.ReadFile(path); err == nil {
				read <- string(text)
				return
			}
		}
		read <- "no file"
	}()
	withdraw, err := door.Announce(dir, name, addr)
	if err != nil {
		t.Fatal(err)
	}
	if text := <-read; text != addr+"\n" {
		t.Errorf("found %d bytes %.20q, want the %d of the address and a line's end", len(text), text, len(addr)+1)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("got mode %v, %v, want 0600", info.Mode(), err)
	}
	if _, err := door.Announce(dir, name, "another"); !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), path+": file exists") {
		t.Errorf("a second session's: got %v, want that it exists", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != addr+"\n" {
		t.Errorf("the second session has touched it: %.20q, %v", text, err)
	}
	for range 2 { // the second time it is gone
		if err := withdraw(); err != nil {
			t.Error(err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if _, err := door.Announce(filepath.Join(dir, "none"), name, addr); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in no directory: got %v", err)
	}
}
