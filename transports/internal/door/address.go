package door

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Announce writes a session's address, which holds its secret, to the file called
// name in dir, for whoever wants to talk to the server with a client of his own.
// Its owner alone can read it. Whoever finds the file finds all of it, and a file
// that is there already, another session's, stays what it is: that is an error,
// which leaves nothing behind. Withdraw removes the file; one that is gone with
// its directory is no error.
func Announce(dir, name, addr string) (withdraw func() error, err error) {
	f, err := os.CreateTemp(dir, "."+name+"-*") // of mode 0600
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, name)
	_, err = f.WriteString(addr + "\n")
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Link(f.Name(), path) // a rename would replace what is there
	}
	if err = errors.Join(err, os.Remove(f.Name())); err != nil {
		return nil, err
	}
	return func() error {
		if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}, nil
}
