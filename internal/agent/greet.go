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

// protocol is the version of all that server and agent say to each other.
const protocol = 1

// A version is what one end speaks. Both ends of a run have the same.
type version struct {
	Protocol int    `json:"protocol"`
	Build    string `json:"build"`
}

func ownVersion() version { return version{protocol, trainer.Build()} }

func (v version) String() string {
	return fmt.Sprintf("version %d of build %.200q", v.Protocol, v.Build)
}

// opening is what the server says first.
type opening struct {
	version
	Proof []byte `json:"proof"`
}

// A greeting is what the agent answers: who it is.
type greeting struct {
	version
	Proof []byte `json:"proof"`
	Name  string `json:"name"`
	Self
}

// Self is what an agent says of its process and its host.
type Self struct {
	Host         string              `json:"host"` // its name
	Rank         int                 `json:"rank"` // that an engine has given it; 0 if none has
	Environment  machine.Environment `json:"environment"`
	Memory       int64               `json:"memory"`        // bytes that a process may have there; 0 if nobody knows
	MemorySource string              `json:"memory_source"` // what says so
	Clock        machine.Clock       `json:"clock"`         // which clock its processes read
}

// verdict ends the greeting.
type verdict struct {
	Refused string `json:"refused,omitempty"`
}

// refusal is why the server does not let an agent join. To try again would change
// nothing.
type refusal string

func (r refusal) Error() string { return string(r) }

// proofs returns what only the server, and only the agent, of this connection can say if
// it knows the token.
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

// greetTime is how long a greeting may take. Until it is over, the other end is a stranger.
const greetTime = 10 * time.Second

// welcome greets an agent and returns what it says of itself. admit says whether it may
// join under its name, once it has proved that it knows the token.
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
			err = errors.New("it has left without a proof that it knows the run's token")
		}
	}
	if err != nil {
		return err
	}
	if !hmac.Equal(g.Proof, want) {
		err = refusal("it does not know the run's token")
	} else {
		err = admit(g)
	}
	var v verdict
	if err != nil {
		v.Refused = err.Error()
	}
	return errors.Join(err, writeFrame(conn, v))
}

// greet is the agent's side of welcome.
func greet(conn *tls.Conn, token, name string, self Self) error {
	if err := conn.Handshake(); errors.Is(err, identity.ErrAuthority) {
		return refusal(err.Error() + ": the join line is of another run")
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
		return refusal("the server does not know this token: it is of another run")
	}
	if v := ownVersion(); o.version != v {
		err = refusal(fmt.Sprintf("the server is %v, this agent is %v: run the same program on all hosts", o.version, v))
	}
	if err = errors.Join(err, writeFrame(conn, greeting{ownVersion(), own, name, self})); err != nil {
		return err // the server knows why, too
	}
	var v verdict
	if err := readFrame(conn, &v); err != nil {
		return fmt.Errorf("the server's verdict: %w", err)
	}
	if v.Refused != "" {
		return refusal("the server refuses this agent: " + v.Refused)
	}
	return nil
}

var names = regexp.MustCompile(`^[\w.-]{1,64}$`)

// CheckName reports what cannot be the name of an agent, or of a host: it stands in
// lists, in tables and in files.
func CheckName(name string) error {
	if !names.MatchString(name) {
		return fmt.Errorf("name %.80q: want letters, digits, and - _ . between them, 64 at most", name)
	}
	return nil
}

// check reports what no agent says of itself.
func (g greeting) check() error {
	if v := ownVersion(); g.version != v {
		return refusal(fmt.Sprintf("agent %.80q is %v, the server is %v: run the same program on all hosts", g.Name, g.version, v))
	}
	if err := errors.Join(CheckName(g.Name), CheckName(g.Host)); err != nil {
		return refusal("the agent's " + err.Error())
	}
	if g.Rank < 0 || g.Rank > mostAgents || g.Memory < 0 {
		return refusal(fmt.Sprintf("agent %s has rank %d and %d bytes of memory", g.Name, g.Rank, g.Memory))
	}
	return nil
}

// ownSelf returns what this process says.
func ownSelf(rank int) Self {
	memory, source := machine.MemoryLimit()
	return Self{Host: HostName(), Rank: rank, Environment: machine.Read(), Memory: memory, MemorySource: source, Clock: machine.OwnClock()}
}

// HostName returns the first label of this host's name, if it can stand in a list.
func HostName() string {
	name, _ := os.Hostname() // a host without a name is one
	if name, _, _ = strings.Cut(name, "."); CheckName(name) != nil {
		return "host"
	}
	return name
}
