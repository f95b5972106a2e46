package driver_test

import (
	"os"
	"path/filepath"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/transports/driver"
)

// TestFolders: whichever directory a server names, Open opens it only inside an allowed
// folder. Nil folders allow every directory.
func TestFolders(t *testing.T) {
	root := t.TempDir()
	shared, secret := filepath.Join(root, "shared"), filepath.Join(root, "secret")
	for _, dir := range []string{shared, secret, filepath.Join(shared, "run"), shared + "-not"} {
		check.Must(t, os.Mkdir(dir, 0o700))
	}
	for link, to := range map[string]string{"out": secret, "up": "..", "run/in": ".."} {
		check.Must(t, os.Symlink(to, filepath.Join(shared, link)))
	}
	for _, c := range []struct {
		allowed driver.Folders
		dir     string
		ok      bool
	}{
		{nil, secret, true},
		{driver.Folders{}, shared, false},
		{driver.Folders{shared}, shared, true},
		{driver.Folders{secret, shared}, shared + "/run", true},
		{driver.Folders{shared}, shared + "/run/in", true},
		{driver.Folders{shared}, shared + "/", true},
		{driver.Folders{shared}, secret, false},
		{driver.Folders{shared}, root, false},
		{driver.Folders{shared}, shared + "-not", false},
		{driver.Folders{shared}, shared + "/../secret", false},
		{driver.Folders{shared}, shared + "/out", false},
		{driver.Folders{shared}, shared + "/up/secret", false},
		{driver.Folders{shared}, "", false},
		{driver.Folders{shared}, "run", false},
		{driver.Folders{"/"}, shared, true},
	} {
		opened, err := c.allowed.Open(c.dir)
		check.That(t, (err == nil) == c.ok, "%v: open %q: got error %v", c.allowed, c.dir, err)
		if err == nil {
			opened.Close()
		}
	}
}
