package cli

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/pprof"
	"strings"
	"syscall"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/child"
	"ipcbench/internal/test/waiting"
)

// runPprof returns a command that runs pprof on a profile, with a home of its own.
func runPprof(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.pb.gz")
	f := check.Value(os.Create(path))(t)
	check.Must(t, errors.Join(pprof.Lookup("goroutine").WriteTo(f, 0), f.Close()))
	cmd := command(t, append(append([]string{"pprof"}, args...), path)...)
	cmd.Env = append(cmd.Env, "HOME="+cmd.Dir, "XDG_CONFIG_HOME=")
	return cmd
}

// TestPprofPage: the page is served on a free port of the loopback interface, and refers to
// nothing outside of it. pprof writes nothing into the home, and ends with a signal.
func TestPprofPage(t *testing.T) {
	c := child.Start(t, runPprof(t, "-http", "localhost:", "-no_browser"))
	line := c.Says("Serving web UI on .*\n")
	at, err := url.Parse(strings.TrimSpace(strings.TrimPrefix(line, "Serving web UI on ")))
	check.Need(t, err == nil && at.Port() != "" && at.Port() != "0", "it says %q, %v", line, err)
	page := ""
	waiting.Until(t, "the page", func() bool { // the address is printed before the server listens
		answer, err := http.Get(at.String())
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		all, err := io.ReadAll(answer.Body)
		page = string(all)
		return err == nil && answer.StatusCode == http.StatusOK
	})
	check.That(t, strings.Contains(page, "cli.runPprof") && strings.HasSuffix(strings.TrimSpace(page), "</html>"),
		"the page is\n%s", page)
	outside := regexp.MustCompile(`src="|<link|@import|url\("?http|href="(//|http)`).FindAllString(page, -1)
	check.Equal(t, outside, nil, "the page refers to others")
	for _, other := range ourAddresses() {
		if other == "127.0.0.1" {
			continue
		}
		if c, err := net.Dial("tcp", net.JoinHostPort(other, at.Port())); err == nil {
			c.Close()
			t.Errorf("it listens at %s, too", other)
		}
	}
	c.Send(syscall.SIGINT)
	c.Wait()
	check.Equal(t, c.ProcessState.String(), "signal: interrupt", "it ended with")
	left, err := os.ReadDir(c.Dir)
	check.That(t, err == nil && len(left) == 0, "left in the home: %v, %v", left, err)
}

// TestPprofPipe: a reader that closes the pipe early is not an error.
func TestPprofPipe(t *testing.T) {
	read, write, err := os.Pipe()
	check.Must(t, err)
	read.Close()
	defer write.Close()
	cmd := runPprof(t, "-top")
	cmd.Stdout = write
	child.Start(t, cmd).Ends(waiting.Limit, exitPipe, "^$")
}
