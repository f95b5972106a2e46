package program

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/exchange"
	"ipcbench/bench/session"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/mutate"
	"ipcbench/trainer"
	"ipcbench/transports/all"
)

// golden reads testdata/NAME, parses it, and checks that the parsed value is written as exactly the same text.
func golden[T any](t *testing.T, name string, parse func([]byte) (T, error)) (v T, text []byte) {
	t.Helper()
	text = check.Value(os.ReadFile(filepath.Join("../testdata", name)))(t)
	v = check.Value(parse(text))(t)
	again := check.Value(json.MarshalIndent(v, "", "\t"))(t)
	check.Equal(t, string(again)+"\n", string(text), name)
	return v, text
}

// TestExchangeGolden: order and answer have the form that docs/reference/peer.md describes and other builds expect. An
// order that is converted to the program's types and back is unchanged.
func TestExchangeGolden(t *testing.T) {
	o, _ := golden(t, "order.json", exchange.ParseOrder)
	s := check.Value(specOf(o, 0, all.Transports()))(t)
	plan := check.Value(planOf(o.Block))(t)
	got := blockOrder(s, plan, o.Block.Slow)
	check.Equal(t, compact(t, got.Cells[0]), compact(t, o.Cells[0]))
	check.Equal(t, got.Block.Rounds, 3, "rounds")
	l, who := s.Model.Layout, o.Works[0].Clients
	check.That(t, l.Payload() == 56 && who[0].Weight+who[1].Weight == 3.5 && who[1].ID == 1,
		"%d bytes of payload, clients %+v", l.Payload(), who)

	a, _ := golden(t, "answer.json", exchange.ParseAnswer)
	check.Must(t, a.Check(*o, false, false))
	check.That(t, len(a.Hashes) == 5 && a.Hashes[1] == 0xfedcba9876543210, "hashes %x", a.Hashes)
	every(t, reflect.ValueOf(*a), "answer")
}

func compact(t *testing.T, text []byte) string {
	t.Helper()
	var b bytes.Buffer
	check.Must(t, json.Compact(&b, text))
	return b.String()
}

// elsewhere matches fields that the golden answer need not have: fields of peers, of a run's own blocks, or of other
// hosts.
var elsewhere = regexp.MustCompile(`\.(Error|Software|Unproved|Running|Canary|Index|Layout|Position|At|Profiled|Timeline|Link|Listen|Host|OtherClock|Hashed)$`)

// every reports zero fields of v: a golden file without a field would not show its loss.
func every(t *testing.T, v reflect.Value, name string) {
	if elsewhere.MatchString(name) {
		return
	}
	if v.IsZero() {
		t.Errorf("../testdata/answer.json has no %s", name)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		every(t, v.Elem(), name)
	case reflect.Struct:
		for f, value := range v.Fields() {
			if f.IsExported() {
				every(t, value, name+"."+f.Name)
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Struct {
			every(t, v.Index(0), name+"[0]")
		}
	}
}

// TestOrderOfModels: an order's layouts, seed and, if used, the path of a values file are enough for another build to
// make the same models.
func TestOrderOfModels(t *testing.T) {
	file := filepath.Join(t.TempDir(), "small.safetensors")
	header := `{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`
	check.Must(t,
		os.WriteFile(file, append(append([]byte{byte(len(header)), 0, 0, 0, 0, 0, 0, 0}, header...), make([]byte, 8)...), 0o600))
	nothing := filepath.Join(t.TempDir(), "nothing.safetensors")
	check.Must(t, os.WriteFile(nothing, []byte("\x02\x00\x00\x00\x00\x00\x00\x00{}"), 0o600))
	for _, name := range []string{"cnn", "vlm-batch", file, "cnn up=lora", "cnn up=" + nothing, "cnn up=" + file, "cnn up=cnn"} {
		cell := benchtest.Specs[session.Spec](t, all.Transports(), "inproc "+name+" clients=4")[0]
		m, up := cell.Model, cell.Update()
		text := check.Value(json.Marshal(orderWork(cell)))(t)
		check.That(t, strings.Contains(string(text), `"up`) == (up != m), "%s: %s", name, text)
		var w exchange.Work
		check.Must(t, json.Unmarshal(text, &w))
		got, gotUp, err := w.Models()
		check.Must(t, err)
		check.Equal(t, w.Clients, trainer.Roster(4), name)
		check.That(t, got.Name == m.Name && got.File() == m.File() && got.Layout.Digest() == m.Layout.Digest(), "%s becomes %+v", name, got)
		check.That(t, (gotUp == nil) == (up == m) && (gotUp == nil || gotUp.Name == up.Name && gotUp.Layout.Digest() == up.Layout.Digest()),
			"%s: the update becomes %+v", name, gotUp)
	}
}

// TestOrderOfWorkloads: unusual settings of a cell survive the order. A cell with an unknown key is refused with that
// key; other cells of the order are not affected.
func TestOrderOfWorkloads(t *testing.T) {
	for _, unusual := range []string{
		"", " values=normal", " scenario=sync", " train-ms=5 nested", " respawn", " change=2%/rows values=normal scenario=sync",
	} {
		s := benchtest.Specs[session.Spec](t, all.Transports(), "pickle cnn clients=3"+unusual)[0]
		o := firstOrder([]session.Spec{s, s})
		o.Version, o.Cells[1] = exchange.Version, []byte(strings.Replace(string(o.Cells[1]), "{", `{"mood":"good",`, 1))
		text := check.Value(json.Marshal(o))(t)
		read := check.Value(exchange.ParseOrder(text))(t)
		got := check.Value(specOf(read, 0, all.Transports()))(t)
		check.Equal(t, got.String(), s.String())
		check.Fails(t, check.Err(specOf(read, 1, all.Transports())), `unknown field "mood"`, s)
	}
}

// change returns a compacted golden file with its single occurrence of from replaced.
func change(t *testing.T, name, from, to string) []byte {
	t.Helper()
	text := check.Value(os.ReadFile(filepath.Join("../testdata", name)))(t)
	var b bytes.Buffer
	check.Must(t, json.Compact(&b, text))
	n := strings.Count(b.String(), from)
	check.Need(t, n == 1, "%s holds %q %d times", name, from, n)
	return []byte(strings.Replace(b.String(), from, to, 1))
}

// key returns the last key of a place.
func key(place string) string {
	return strings.TrimRight(place[strings.LastIndex(place, ".")+1:], "[0123456789]")
}

// TestHostileOrder: an order that this build does not fully understand is refused, and the error names the offending
// part.
func TestHostileOrder(t *testing.T) {
	read := func(text []byte) error {
		o, err := exchange.ParseOrder(text)
		if err == nil {
			if _, err = specOf(o, 0, all.Transports()); err == nil {
				_, err = planOf(o.Block)
			}
		}
		return err
	}
	_, valid := golden(t, "order.json", exchange.ParseOrder)
	mutate.JSON(t, valid, `^block.seed 9|^cells\[0\] `, func(place string, text []byte) {
		check.Fails(t, read(text), key(place), place)
	})
	for _, tt := range []struct{ from, to, want string }{
		{`"version":2`, `"version":1`, "version: 1: must be 2"},
		{`"version":2,"works":[`, `"version":3,"works":7,"x":[`, "version: 3: must be 2"},
		{`"work":0`, `"work":1`, "work: 1: must be an index of the order's 1 works"},
		{`"variant":"pickle"`, `"variant":"pigeon"`, "unknown transport"},
		{`"respawn":true`, `"change":"0%"`, `change: "0%" must be a share`},
		{`"respawn":true`, `"values":"zeros"`, `values: "zeros": must be uniform or normal`},
		{`"respawn":true`, `"scenario":"war"`, `scenario: "war": must be sync`},
		{`"dtype":"f32"`, `"dtype":"f33"`, "down[0].dtype: tensor: unknown dtype"},
		{`"shape":[3,4]`, `"shape":[4611686018427387904,4]`, "overflow"},
		{`"shape":[3,4]`, `"shape":[4611686018427387]`, "model_bytes: "},
		{`"model":"two"`, `"model":"two","file":"none.safetensors"`, "no such file"},
		{`"model":"two"`, `"model":"two","file":"cnn"`, "its tensors differ from the order's"},
		{`"clients":[`, `"up":[{"name":"weight","dtype":"f32","shape":[12]}],"clients":[`, "--up: empty"},
		{`"clients":[`, `"update":"\u001b[2J","up":[{"name":"weight","dtype":"f32","shape":[12]}],"clients":[`, "contains unprintable characters"},
		{`"clients":[`, `"update":"big","up":[{"name":"weight","dtype":"f32","shape":[4611686018427387]}],"clients":[`, "up_bytes: "},
		{`"clients":[`, `"up":[{"name":"weight","dtype":"f32","shape":[-12]}],"clients":[`, "up: tensor: \"weight\": negative dimension"},
		{`"id":1`, `"id":0`, "clients[1].id: 0"},
		{`"weight":2.5`, `"weight":0`, "clients[1].weight: 0"},
		{`"weight":2.5`, `"weight":1e300`, "clients[1].weight: 1e+300"},
		{`"workers":1`, `"workers":0`, "--workers must be at least 1, not 0"},
		{`"rounds":3`, `"rounds":0`, "--time must be positive"},
		{`"round_limit_ns":0`, `"round_limit_ns":0,"slow_ns":-1`, "slow_ns: -1"},
		{`"round_limit_ns":0`, `"round_limit_ns":0,"slow_ns":9223372036854775807`, "slow_ns: 9223372036854775807"},
		{`"spans":131072`, `"spans":0`, "room for spans must be at least 1, not 0"},
		{`"verify":"sample"`, `"verify":"none"`, `--verify must be last, sample or all, not "none"`},
		{`"round_limit_ns":0`, `"round_limit_ns":1`, "--round-limit must be from 100ms"},
	} {
		check.Fails(t, read(change(t, "order.json", tt.from, tt.to)), tt.want, tt.to)
	}
}

// TestHostileAnswer: an answer that no block of the order can have is rejected.
func TestHostileAnswer(t *testing.T) {
	refused := func(want string, text []byte, order string, peer bool) {
		t.Helper()
		o, _ := golden(t, order, exchange.ParseOrder)
		a, err := exchange.ParseAnswer(text)
		if err == nil {
			err = a.Check(*o, peer, false)
		}
		check.Fails(t, err, want)
		check.That(t, err == nil || len(err.Error()) <= 1000, "an error of %d bytes", len(fmt.Sprint(err)))
	}
	for _, prefix := range []string{"", "peer-"} {
		_, valid := golden(t, prefix+"answer.json", exchange.ParseAnswer)
		const allowed = `(limit|cpus\[\d\]|counts.*) (-1|9)|(environment.*|host|cipher|refused\[0\]) "` // texts are made printable
		mutate.JSON(t, valid, allowed, func(place string, text []byte) { refused(key(place), text, prefix+"order.json", prefix != "") })
	}
	for _, tt := range []struct{ from, to, want string }{
		{`"version":2,"rules"`, `"version":1,"rules"`, "version: 1: must be 2: run the builds separately, or change the peer to follow docs/reference/peer.md"},
		{`"fedcba9876543210"`, `"FEDCBA9876543210"`, "hashes[1]"},
		{`"fedcba9876543210"`, `"fedcba987654321"`, "must be 16 hex digits"},
		{`"fedcba9876543210"`, `"0fedcba9876543210"`, "must be 16 hex digits"},
		{`"fedcba9876543210"`, `"+edcba9876543210"`, "must be 16 hex digits"},
		{`"fedcba9876543210"`, `""`, "must be 16 hex digits"},
		{`,"fedcba9876543210"`, ``, "hashes: 4 entries: must be 5 to 1005"},
		{`"fedcba9876543210"`, strings.Repeat(`"fedcba9876543210",`, 1001) + `"fedcba9876543210"`, "hashes: 1006 entries"},
		{`"proof":{"rounds":2,"updates":4,`, `"proof":{"rounds":2,"updates":5,`, "5 updates in 2 rounds"},
		{`"proof":{"rounds":2,"updates":4,`, `"proof":{"rounds":5,"updates":10,`, "rounds at most 4"},
		{`"round_ns":[5000001,5000002]`, `"round_ns":[5000001,5000002,3]`, "train_ns: 4 samples: must be 6"},
		{`"rtt_ns":[14,`, `"rtt_ns":[`, "rtt_ns: 3 samples: must be 4"},
		{`"encode"`, `"teleport"`, "no such phase"},
		{`"spans":`, `"profiled":true,"spans":`, "profiles"},
		{`"cipher":"TLS_AES_128_GCM_SHA256"`, `"cipher":""`, "tls.cipher: empty"},
		{`"rules":2`, `"rules":2,"error":"no room"`, "no room"},
		{`"rules":2`, `"rules":2,"error":"` + strings.Repeat("x", 5000) + `"`, strings.Repeat("x", 1000)},
	} {
		refused(tt.want, change(t, "answer.json", tt.from, tt.to), "order.json", false)
	}
	for _, tt := range []struct{ from, to, want string }{ // answers of a peer
		{`c53a30b862b2f914"]}`, `c53a30b862b2f914"]}{}`, "the text: not JSON at byte"},
		{`"rtt_ns":[180000,`, `"rtt_ns":[`, "block.rtt_ns: 3 samples: must be 4 for 2 rounds of 2 clients"},
		{`"rtt_ns":[180000,`, `"rtt_ns":[0,`, "block.rtt_ns[0]: 0: must be 1 to "},
		{`"rtt_ns":[180000,`, `"rtt_ns":[400001,`, "block.rtt_ns[0]: 400001: must be 1 to 400000, as part of round_ns"},
		{`"train_ns":[20000,`, `"train_ns":[180000,`, "block.train_ns[0]: 180000: must be 1 to 179999"},
		{`"down_ns":[80000,`, `"down_ns":[180001,`, "block.down_ns[0]: 180001: must be 0 to 180000"},
		{`"up_ns":[95000,`, `"up_ns":[19999,`, "block.up_ns[0]: 19999: must be 20000 to 180000"},
		{`"round_ns":[400000,410000]`, `"round_ns":[]`, "block.round_ns: no round was timed"},
		{`"proof":{"rounds":2,"updates":4,`, `"proof":{"rounds":1,"updates":2,`, "block.proof.rounds: 1: must be at least 2"},
		{`"index":0`, `"profiled":true,"index":0`, "profiles"},
		{`"processes":[{"usage"`, `"processes":[{},{"usage"`, "block.processes: 2: must be 1"},
		{`["a3018cf49ce8e68e","95547bf04a4a8cfe"]`, `["95547bf04a4a8cfe"]`, "running[0]: 1 entries: must be 2"},
		{`"a3018cf49ce8e68e","95547bf04a4a8cfe"`, `"95547bf04a4a8cfe","a3018cf49ce8e68e"`, "running[0]: the last is a3018cf49ce8e68e: must be the hash of the model, 95547bf04a4a8cfe"},
		{`["a3018cf49ce8e68e","95547bf04a4a8cfe"],`, ``, "running: 4 entries: must be 5"},
		{`"running"`, `"unproved":"no hash","running"`, "unproved: must be absent, because there are hashes"},
	} {
		refused(tt.want, change(t, "peer-answer.json", tt.from, tt.to), "peer-order.json", true)
	}
}

// TestNoTensors: the answer of a peer is accepted for a model without tensors, which has no hash after a tensor.
func TestNoTensors(t *testing.T) {
	a, _ := golden(t, "peer-answer.json", exchange.ParseAnswer)
	o, _ := golden(t, "peer-order.json", exchange.ParseOrder)
	o.Works[0].Down = nil
	check.Fails(t, a.Check(*o, true, false), "running[0]: 2 entries: must be 0")
	for n := range a.Running {
		a.Running[n] = nil
	}
	check.OK(t, a.Check(*o, true, false))
}

// TestSecondRound: if only the last round must be proved, the second one may have a hash besides 1000 warm-up rounds.
func TestSecondRound(t *testing.T) {
	a, _ := golden(t, "answer.json", exchange.ParseAnswer)
	o, _ := golden(t, "order.json", exchange.ParseOrder)
	for len(a.Hashes) < 1006 {
		a.Hashes = append(a.Hashes, a.Hashes[0])
	}
	check.Fails(t, a.Check(*o, false, false), "hashes: 1006 entries: must be 5 to 1005")
	o.Block.Verify = "last"
	check.OK(t, a.Check(*o, false, false))
	a.Hashes = append(a.Hashes, a.Hashes[0])
	check.Fails(t, a.Check(*o, false, false), "hashes: 1007 entries: must be 5 to 1006")
}

// TestLongBlock: an answer with more timed rounds than exchange.MostTimed is rejected, because each round makes the
// reference chain longer.
func TestLongBlock(t *testing.T) {
	a, _ := golden(t, "answer.json", exchange.ParseAnswer)
	b := a.Block
	b.Phases = nil
	for _, s := range []*[]int64{&b.Round, &b.Train, &b.RTT, &b.Down, &b.Up} {
		*s = make([]int64, exchange.MostTimed+1)
		for i := range *s {
			(*s)[i] = 1
		}
	}
	err := a.Check(exchange.Order{Works: []exchange.Work{{Clients: trainer.Roster(1)}}, Block: &exchange.Block{}}, false, false)
	check.Fails(t, err, fmt.Sprintf("%d timed rounds: a block has at most %d", exchange.MostTimed+1, exchange.MostTimed))
}
