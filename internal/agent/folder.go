package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"ipcbench/internal/scratch"
)

// NonceFile is a file in a session's directory. An agent that reads the server's nonce
// from it shares the directory.
const NonceFile = "nonce"

// longestNonce is the number of bytes of a file that an agent sends to a server at most.
const longestNonce = 64

// A folderOrder names a folder and a session's directory in it.
type folderOrder struct {
	Dir     string `json:"dir"`
	Session string `json:"session"`
}

// Sees returns the NonceFile that the agent finds in the directory session in dir.
func (a *Agent) Sees(ctx context.Context, dir, session string) (nonce string, err error) {
	ctx, cancel := within(ctx, answerTime)
	defer cancel()
	err = a.ask(ctx, "folder", folderOrder{dir, session}, &nonce)
	return nonce, err
}

// folder answers with a session's NonceFile in a folder that the user has allowed.
func (s *service) folder(conn net.Conn, o folderOrder) error {
	if !scratch.Named(o.Session) {
		return fmt.Errorf("%.80q is not a session's directory", o.Session)
	}
	root, err := s.allowed.Dirs.Open(o.Dir)
	if err != nil {
		return err
	}
	defer root.Close()
	f, err := root.OpenFile(o.Session+"/"+NonceFile, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return errors.Join(err, errors.New("not a regular file"))
	}
	nonce, err := io.ReadAll(io.LimitReader(f, longestNonce))
	if err != nil {
		return err
	}
	return say(conn, string(nonce))
}
