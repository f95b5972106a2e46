package agent

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"time"

	"ipcbench/identity"
	"ipcbench/internal/machine"
	"ipcbench/trainer"
)

// protocol is the version of the messages between server and agent.
const protocol = 1

// A version identifies one end's protocol and build. Both ends must have the same.
type version struct {
	Protocol int    `json:"protocol"`
	Build    string `json:"build"`
}

func ownVersion() version { return version{protocol, trainer.Build()} }

func (v version) String() string {
	return fmt.Sprintf("version %d of build %.200q", v.Protocol, v.Build)
}

// An opening is the server's first message.
type opening struct {
	version
	Proof []byte `json:"proof"`
}

// A greeting is the agent's answer to an opening.
type greeting struct {
	version
	Proof []byte `json:"proof"`
	Name  string `json:"name"`
	Self
}

// Self is an agent's description of its process and its host.
type Self struct {
	Host         string              `json:"host"` // host name
	Rank         int                 `json:"rank"` // rank from the engine; 0 without an engine
	Environment  machine.Environment `json:"environment"`
	Memory       int64               `json:"memory"`        // memory limit of a process, in bytes; 0 if unknown
	MemorySource string              `json:"memory_source"` // origin of that limit
	Clock        machine.Clock       `json:"clock"`         // the clock that its processes read
}

// A verdict is the server's answer to a greeting and ends it.
type verdict struct {
	Refused string `json:"refused,omitempty"`
	Again   bool   `json:"again,omitempty"` // the reason may be gone at the next attempt
}

// errAgain is the error of a greeting that may succeed later.
var errAgain = errors.New("another connection has not finished joining")

// A refusal is the reason why an agent must not join the run. Retrying cannot succeed.
type refusal string

func (r refusal) Error() string { return string(r) }

// proofs returns the proofs of both ends of this connection that they know the token.
func proofs(conn *tls.Conn, token string) (server, agent []byte, err error) {
	state := conn.ConnectionState()
	var all [2][]byte
	for i, label := range []string{"ipcbench agents: server", "ipcbench agents: agent"} {
		material, err := state.ExportKeyingMaterial(label, nil, sha256.Size)
		if err != nil {
			return nil, nil, err
		}
		mac := hmac.New(sha256.New, []byte(token))
		mac.Write(material)
		all[i] = mac.Sum(nil)
	}
	return all[0], all[1], nil
}

// greetTime is the time limit of a greeting.
const greetTime = 10 * time.Second

// welcome is the server's side of a greeting. If the agent proves that it knows the
// token, admit decides whether it may join; its error is the reason for a refusal.
func welcome(conn *tls.Conn, token string, admit func(greeting) error) error {
	if err := conn.Handshake(); err != nil {
		return fmt.Errorf("TLS handshake: %w", err)
	}
	own, want, err := proofs(conn, token)
	if err == nil {
		err = writeFrame(conn, opening{ownVersion(), own})
	}
	var g greeting
	if err == nil {
		if err = readFrame(conn, &g); errors.Is(err, io.EOF) {
			err = errors.New("it disconnected without a proof that it has the run's token")
		}
	}
	if err != nil {
		return err
	}
	if !hmac.Equal(g.Proof, want) {
		err = refusal("it does not have the run's token")
	} else {
		err = admit(g)
	}
	var v verdict
	if err != nil {
		v.Refused, v.Again = err.Error(), errors.Is(err, errAgain)
	}
	return errors.Join(err, writeFrame(conn, v))
}

// greet is the agent's side of a greeting.
func greet(conn *tls.Conn, token, name string, self Self) error {
	if err := conn.Handshake(); errors.Is(err, identity.ErrAuthority) {
		return refusal(err.Error() + ": the join line belongs to another run")
	} else if err != nil {
		return fmt.Errorf("TLS handshake: %w", err)
	}
	want, own, err := proofs(conn, token)
	if err != nil {
		return err
	}
	var o opening
	if err := readFrame(conn, &o); err != nil {
		return fmt.Errorf("the server's greeting: %w", err)
	}
	if !hmac.Equal(o.Proof, want) {
		return refusal("the server has another token: this one belongs to another run")
	}
	if v := ownVersion(); o.version != v {
		err = refusal(fmt.Sprintf("the server is %v, this agent is %v: run the same program on all hosts", o.version, v))
	}
	if err = errors.Join(err, writeFrame(conn, greeting{ownVersion(), own, name, self})); err != nil {
		return err // the server finds the same difference in the greeting
	}
	var v verdict
	if err := readFrame(conn, &v); err != nil {
		return fmt.Errorf("the server's verdict: %w", err)
	}
	if v.Again {
		return errors.New("the server: " + v.Refused)
	}
	if v.Refused != "" {
		return refusal("the server refuses this agent: " + v.Refused)
	}
	return nil
}

var names = regexp.MustCompile(`^[\w.-]{1,64}$`)

// CheckName checks the name of an agent or a host, which appears in comma-separated lists,
// tables and files.
func CheckName(name string) error {
	if !names.MatchString(name) {
		return fmt.Errorf("name %.80q: must have 1 to 64 characters, which are letters, digits, - _ and dots", name)
	}
	return nil
}

// check returns a refusal if the greeting has another version or impossible values.
func (g greeting) check() error {
	if v := ownVersion(); g.version != v {
		return refusal(fmt.Sprintf("agent %.80q is %v, the server is %v: run the same program on all hosts", g.Name, g.version, v))
	}
	if err := errors.Join(CheckName(g.Name), CheckName(g.Host)); err != nil {
		return refusal("the agent's " + err.Error())
	}
	if g.Rank < 0 || g.Rank > mostAgents || g.Memory < 0 {
		return refusal(fmt.Sprintf("agent %s has an impossible rank or memory: %d, %d bytes", g.Name, g.Rank, g.Memory))
	}
	return nil
}

// ownSelf describes this process and its host.
func ownSelf(rank int) Self {
	memory, source := machine.MemoryLimit()
	return Self{Host: HostName(), Rank: rank, Environment: machine.Read(), Memory: memory, MemorySource: source, Clock: machine.OwnClock()}
}

// HostName returns the first label of this host's name, or "host" if that is not a name
// that CheckName accepts.
func HostName() string {
	name, _ := os.Hostname() // on an error, name is empty
	if name, _, _ = strings.Cut(name, "."); CheckName(name) != nil {
		return "host"
	}
	return name
}
