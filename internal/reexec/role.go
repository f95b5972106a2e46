package reexec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Roles are the functions of this program that can run in a process of their own, by name.
//
// The question is JSON. If a role returns no error, its answer is written to stdout as JSON,
// and the exit code is 0. Otherwise the error is written to stderr, and the exit code is 1.
// After [ErrProceed], the process goes on with main.
type Roles map[string]func(question []byte) (answer any, err error)

// The names of all roles. Packages that start one refer to it by name, and main and
// TestMain bring the functions.
const (
	Worker = "worker" // trainer: a worker process of a session
	Floor  = "floor"  // bench/floors: one process of a measurement
	Links  = "links"  // internal/link: the program in namespaces of its own
	Mirror = "mirror" // internal/link: holds the packets of a link with a delay
	keeper = "keeper" // every program has it: see Command.Keep
)

// marker is the environment variable of a process that has a role: its name, the id of the
// process that has started it, and the question.
const marker = "_IPCBENCH_ROLE"

// ErrProceed is returned by a role that has prepared the process for main.
var ErrProceed = errors.New("proceed with main")

// Main runs the role for which this process was started, and then ends the process. It
// returns if there is none. It must be called first in main, and in TestMain of packages
// whose tests start roles.
//
// A marker that was set by hand or inherited is refused with exit code 2, because its
// process has not been started by the one that it names.
func Main(roles Roles) {
	text := os.Getenv(marker)
	if text == "" {
		return
	}
	_ = os.Unsetenv(marker) // processes that a role starts do not have it; fails only for invalid names
	name, text, _ := strings.Cut(text, " ")
	starter, question, _ := strings.Cut(text, " ")
	role := roles[name]
	if name == keeper {
		role = keep
	}
	if role == nil || starter != strconv.Itoa(os.Getppid()) {
		fmt.Fprintf(os.Stderr, "%s: %s=%.40q: this process was not started for that role: unset it\n", os.Args[0], marker,
			name)
		os.Exit(2)
	}
	answer, err := role([]byte(question))
	if errors.Is(err, ErrProceed) {
		return
	}
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(answer)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// mark returns the variable for a process that this process starts in a role.
func mark(role string, question any) (string, error) {
	if os.Getenv(marker) != "" { // it would start itself endlessly
		return "", errors.New("this process was started in a role, but its main does not begin with reexec.Main")
	}
	text, err := json.Marshal(question)
	return fmt.Sprintf("%s=%s %d %s", marker, role, os.Getpid(), text), err
}

// maxAnswer is the maximum size of a role's answer in bytes.
const maxAnswer = 1 << 20

// A Called is a process of this program that Call has started.
type Called struct {
	*Asked
	stderr *Excerpt
}

// Call starts c, which has a role that answers its question. The caller must call Answer.
func Call(ctx context.Context, c Command) (*Called, error) {
	stderr := &Excerpt{Most: 1 << 10, Head: true}
	c.Stderr = stderr
	a, err := Ask(ctx, ctx, c, nil, maxAnswer)
	return &Called{a, stderr}, err
}

// Answer waits until the process has ended, and decodes its answer into v. The error is the
// role's own, or says how the process ended.
func (c *Called) Answer(v any) error {
	text, err := c.Asked.Answer()
	if err == nil {
		return json.Unmarshal(text, v)
	}
	reported := c.stderr.String()
	switch {
	case reported == "":
		return err
	case c.Code() == 1:
		return errors.New(reported)
	}
	return fmt.Errorf("%w: %s", err, reported)
}
