package bench

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"ipcbench/bench/result"

	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/tensor/models"
	"ipcbench/trainer"
	"ipcbench/transports"
	"ipcbench/transports/all"
)

// golden reads testdata/NAME into v, and checks that v is written as it stands
// there: what another build sends today is read and written by this one for good.
func golden(t *testing.T, name string, v any) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := parse(text, v); err != nil {
		t.Fatal(err)
	}
	again, err := json.MarshalIndent(v, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	if again = append(again, '\n'); !bytes.Equal(again, text) {
		t.Errorf("%s is written again as\n%s", name, again)
	}
	return text
}

// TestExchangeGolden: order and answer are what they were when they were frozen,
// and survive the way through the program's own structs.
func TestExchangeGolden(t *testing.T) {
	var o order
	golden(t, "order.json", &o)
	specs, whos, errs := o.specs(all.Transports())
	plan, err := o.Block.plan()
	if errs[0] != nil || err != nil {
		t.Fatal(errs[0], err)
	}
	if got := specs[0].order(0, plan, o.Block.Slow); !reflect.DeepEqual(got, o.Cells[0]) {
		t.Errorf("cell %+v becomes %+v", o.Cells[0], got)
	}
	o.Block.Time = 1 // which does not count beside rounds
	o.Block.WarmTime = 0
	if got := blockOrder(plan, specs[0], o.Block.Slow); got.Rounds != 3 || got.WarmTime != 0 {
		t.Errorf("block %+v becomes %+v", o.Block, got)
	}
	if l := specs[0].Model.Layout; l.Payload() != 56 || whos[0][0].Weight+whos[0][1].Weight != 3.5 || whos[0][1].ID != 1 {
		t.Errorf("%d bytes of payload, clients %+v", l.Payload(), whos[0])
	}

	var a answer
	text := golden(t, "answer.json", &a)
	if _, err := parseAnswer(text); err != nil {
		t.Fatal(err)
	}
	b, hashes, err := a.fits(o.Block, 2)
	if err != nil || len(hashes) != 5 || hashes[1] != 0xfedcba9876543210 {
		t.Fatalf("hashes %x, %v", hashes, err)
	}
	if want := a.Block.Unattributed[0] + a.Block.Unattributed[1]; b.Unattributed != want || len(b.Phases) != len(a.Block.Phases) || b.Phases[phase.ReserveUpdate.String()] != 34+35 {
		t.Errorf("%d ns are not attributed, want the sum, %d; phases %v", b.Unattributed, want, b.Phases)
	}
	if again := answerOf(b, a.Block.Unattributed, renamed(a.Block.Phases, lend, phase.ReserveUpdate.String())); !reflect.DeepEqual(again, a.Block) {
		t.Errorf("block %+v becomes %+v", a.Block, again)
	}
	if again := environmentOut(*a.Environment.environment()); !reflect.DeepEqual(again, a.Environment) {
		t.Errorf("environment %+v becomes %+v", a.Environment, again)
	}
	if again := hashesOut(hashes); !reflect.DeepEqual(again, a.Hashes) {
		t.Errorf("hashes %v become %v", a.Hashes, again)
	}
	every(t, reflect.ValueOf(a), "answer")
}

// every reports what is zero in v: a golden without it would not notice that it is
// lost.
func every(t *testing.T, v reflect.Value, name string) {
	switch name {
	case "answer.Error", "answer.Software", "answer.Unproved", "answer.Running": // of peers, the last three
		return
	}
	if v.IsZero() {
		t.Errorf("testdata/answer.json has no %s", name)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		every(t, v.Elem(), name)
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				every(t, v.Field(i), name+"."+f.Name)
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Struct {
			every(t, v.Index(0), name+"[0]")
		}
	}
}

// TestOrderOfModels: the layouts and the seed are all that the other build needs,
// or the file of the values besides. A build that does not know of updates unlike the
// model refuses them.
func TestOrderOfModels(t *testing.T) {
	file := filepath.Join(t.TempDir(), "small.safetensors")
	header := `{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`
	if err := os.WriteFile(file, append(append([]byte{byte(len(header)), 0, 0, 0, 0, 0, 0, 0}, header...), make([]byte, 8)...), 0o600); err != nil {
		t.Fatal(err)
	}
	v, err := transports.NewVariant(all.Transports()[0], nil)
	if err != nil {
		t.Fatal(err)
	}
	nothing := filepath.Join(t.TempDir(), "nothing.safetensors")
	if err := os.WriteFile(nothing, []byte("\x02\x00\x00\x00\x00\x00\x00\x00{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, of := range [][2]string{{"cnn", "model"}, {"vlm-batch", "model"}, {file, "model"}, {"cnn", "lora"}, {"cnn", nothing}, {"cnn", file}, {"cnn", "cnn"}} {
		name := of[0] + " up=" + of[1]
		m, err := models.Parse(of[0])
		if err != nil {
			t.Fatal(err)
		}
		up, err := models.Update(of[1], m)
		if err != nil {
			t.Fatal(err)
		}
		cell := Spec{Variant: v, Model: m, Up: up, Clients: 4}
		if needs := slices.Contains(cell.order(0, Plan{}, 0).Needs, needUp); needs != (up != m) {
			t.Errorf("%s: needs it: %v", name, needs)
		}
		text, err := json.Marshal(cell.workOrder())
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), `"up`) != (up != m) {
			t.Errorf("%s: %s", name, text)
		}
		var w orderWork
		if err := json.Unmarshal(text, &w); err != nil {
			t.Fatal(err)
		}
		got, gotUp, who, err := w.models()
		if err != nil {
			t.Fatal(err)
		}
		if got.Name != m.Name || got.File() != m.File() || got.Layout.Digest() != m.Layout.Digest() || !reflect.DeepEqual(who, trainer.Roster(4)) {
			t.Errorf("%s becomes %+v, %+v", name, got, who)
		}
		if (gotUp == nil) != (up == m) || gotUp != nil && (gotUp.Name != up.Name || gotUp.Layout.Digest() != up.Layout.Digest()) {
			t.Errorf("%s: the update becomes %+v", name, gotUp)
		}
	}
}

// TestOrderOfWorkloads: what changes, how values are made, and by whom, arrive as they
// are, and are needs; values that are made in spite of a file need none.
func TestOrderOfWorkloads(t *testing.T) {
	v, err := transports.NewVariant(all.Transports()[0], nil)
	if err != nil {
		t.Fatal(err)
	}
	m, err := models.Parse("cnn")
	if err != nil {
		t.Fatal(err)
	}
	c, err := tensor.ParseChange("2%/rows")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		spec  Spec
		needs []string
	}{
		{Spec{}, []string{}}, {Spec{Setup: Setup{Change: c}}, []string{needChange}}, {Spec{Setup: Setup{Values: Normal}}, []string{needNormal}}, {Spec{Setup: Setup{Scenario: Sync}}, []string{needSync}},
		{Spec{Setup: Setup{Change: c, Values: Normal, Scenario: Sync}}, []string{needChange, needNormal, needSync}},
	} {
		s := tt.spec
		s.Variant, s.Model, s.Workers, s.Clients, s.PerProcess, s.Depth = v, m, 1, 3, 1, 1
		o := order{Version: exchangeVersion, Works: []orderWork{s.workOrder()}, Cells: []orderCell{s.order(0, Plan{}, 0)}}
		text, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		var got order
		if err := parse(text, &got); err != nil {
			t.Fatal(err)
		}
		specs, _, errs := got.specs(all.Transports())
		if errs[0] != nil || specs[0].String() != s.String() || !reflect.DeepEqual(o.Cells[0].Needs, tt.needs) {
			t.Errorf("%s becomes %s, error %v; needs %v", s, specs[0], errs[0], o.Cells[0].Needs)
		}
	}
}

// TestHostileWorkload: what no run could have written of a workload and a codec is
// refused by the name of its field.
func TestHostileWorkload(t *testing.T) {
	for _, tt := range []struct {
		cell Cell
		want string
	}{
		{Cell{Setup: Setup{Values: "file"}}, `values: "file": must be uniform or normal`},
		{Cell{Setup: Setup{Scenario: "fedavg"}}, `scenario: "fedavg": must be sync`},
		{Cell{Coding: &Coding{DensityDown: 1.1}}, "coding.density_down: 1.1: not from 0 to 1"},
		{Cell{Coding: &Coding{DensityUp: -1}}, "coding.density_up: -1: not"},
		{Cell{Coding: &Coding{ErrorUp: &CodingError{RMS: math.Inf(1)}}}, "coding.error_up.rms: +Inf: not"},
		{Cell{Coding: &Coding{Bound: math.NaN()}}, "coding.bound: NaN: not"},
		{Cell{Coding: &Coding{Plain: []string{"\x1b[2J"}}}, "coding.plain[0]: "},
	} {
		c := tt.cell
		c.Transport, c.Variant, c.Model.Name, c.Workers, c.Clients, c.PerProcess, c.Depth = "a", "a", "a", 1, 1, 1, 1
		if err := cmp.Or(result.Check(c), c.ValidateHead()); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%+v: error %v, want %q", tt.cell, err, tt.want)
		}
	}
}

// change returns the golden with one part of it replaced.
func change(t *testing.T, name, from, to string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := json.Compact(&b, text); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(b.String(), from); n != 1 {
		t.Fatalf("%s holds %q %d times", name, from, n)
	}
	return strings.Replace(b.String(), from, to, 1)
}

// TestHostileOrder: an order that this build does not understand in full is
// refused, by what it does not understand.
func TestHostileOrder(t *testing.T) {
	for _, tt := range []struct{ from, to, want string }{
		{`"version":1`, `"version":2`, "of version 2, where this build has version 1"},
		{`"version":1,"works":[`, `"version":2,"works":7,"x":[`, "of version 2, where this build has version 1"},
		{`"needs":["respawn"]`, `"needs":["respawn","teleport"]`, `it needs "teleport", which this build does not know`},
		{`"work":0`, `"work":1`, "work: 1: the order has 1"},
		{`"work":0`, `"work":-1`, "work: -1: the order has 1"},
		{`"variant":"pickle"`, `"variant":"pigeon"`, "unknown transport"},
		{`"model":"two"`, `"model":"two","change":"0%"`, `change: "0%": want a share`},
		{`"model":"two"`, `"model":"two","first":"zeros"`, `values: "zeros": must be uniform or normal`},
		{`"model":"two"`, `"model":"two","scenario":"war"`, `scenario: "war": must be sync`},
		{`"dtype":"f32"`, `"dtype":"f33"`, "down[0]: tensor: unknown dtype"},
		{`"shape":[3,4]`, `"shape":[3,-4]`, "negative dimension"},
		{`"shape":[3,4]`, `"shape":[4611686018427387904,4]`, "overflow"},
		{`"shape":[3,4]`, `"shape":[1e400]`, "holds a JSON number 1e400 where int belongs"},
		{`"shape":[3,4]`, `"shape":[4611686018427387]`, "model_bytes: "},
		{`"model":"two"`, `"model":"\u001b[2J"`, "cannot be printed"},
		{`"model":"two"`, `"model":"two","values":"none.safetensors"`, "no such file"},
		{`"model":"two"`, `"model":"two","values":"cnn"`, "not those of the order"},
		{`"clients":[`, `"up":[{"name":"weight","dtype":"f32","shape":[12]}],"clients":[`, "--up: empty"},
		{`"clients":[`, `"update":"\u001b[2J","up":[{"name":"weight","dtype":"f32","shape":[12]}],"clients":[`, "cannot be printed"},
		{`"clients":[`, `"update":"big","up":[{"name":"weight","dtype":"f32","shape":[4611686018427387]}],"clients":[`, "up_bytes: "},
		{`"clients":[`, `"up":[{"name":"weight","dtype":"f32","shape":[-12]}],"clients":[`, "up: tensor: \"weight\": negative dimension"},
		{`"id":1`, `"id":0`, "clients[1].id: 0"},
		{`"weight":2.5`, `"weight":-1`, "clients[1].weight: -1"},
		{`"weight":2.5`, `"weight":0`, "clients[1].weight: 0"},
		{`"weight":2.5`, `"weight":1e300`, "clients[1].weight: 1e+300"},
		{`"weight":2.5`, `"weight":NaN`, "invalid character"},
		{`"workers":1`, `"workers":0`, "--workers must be at least 1, not 0"},
		{`"workers":1`, `"workers":9223372036854775807`, "--workers must be at most 4096"},
		{`"depth":2`, `"depth":-2`, "--depth must be at least 1, not -2"},
		{`"rounds":3`, `"rounds":-3`, "--rounds must be at least 0, not -3"},
		{`"rounds":3`, `"rounds":0`, "--time must be positive"},
		{`"warm_ns":50000000`, `"warm_ns":-1`, "warm_ns: -1"},
		{`"slow_ns":0`, `"slow_ns":-1`, "slow_ns: -1"},
		{`"slow_ns":0`, `"slow_ns":9223372036854775807`, "slow_ns: 9223372036854775807"},
		{`"spans":131072`, `"spans":0`, "room for spans must be at least 1, not 0"},
		{`"verify":"sample"`, `"verify":"none"`, `--verify must be sample or all, not "none"`},
		{`"round_limit_ns":0`, `"round_limit_ns":1`, "--round-limit must be from 100ms"},
	} {
		text := change(t, "order.json", tt.from, tt.to)
		var o order
		err := parse([]byte(text), &o)
		if err == nil {
			_, _, errs := o.specs(all.Transports())
			if err = errs[0]; err == nil {
				_, err = o.Block.plan()
			}
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want an error that holds %q", tt.to, err, tt.want)
		}
	}
}

// TestHostileAnswer: what no block of the order can have is not believed.
func TestHostileAnswer(t *testing.T) {
	for _, tt := range []struct{ from, to, want string }{
		{`"version":1,"rules"`, `"version":0,"rules"`, "of version 0, where this build has version 1"},
		{`"fedcba9876543210"`, `"FEDCBA9876543210"`, "hashes[1]"},
		{`"fedcba9876543210"`, `"fedcba987654321"`, "want 16 hex digits"},
		{`"fedcba9876543210"`, `"0fedcba9876543210"`, "want 16 hex digits"},
		{`"fedcba9876543210"`, `"+edcba9876543210"`, "want 16 hex digits"},
		{`"fedcba9876543210"`, `""`, "want 16 hex digits"},
		{`"fedcba9876543210"`, `16`, "holds a JSON number where string belongs"},
		{`,"fedcba9876543210"`, ``, "of 4 models: want 5 to 1005"},
		{`"fedcba9876543210"`, strings.Repeat(`"fedcba9876543210",`, 1001) + `"fedcba9876543210"`, "of 1006 models"},
		{`"proof":{"rounds":2,"updates":4}`, `"proof":{"rounds":2,"updates":5}`, "5 updates in 2 rounds"},
		{`"proof":{"rounds":2,"updates":4}`, `"proof":{"rounds":5,"updates":10}`, "no more rounds than there are"},
		{`"proof":{"rounds":2,"updates":4}`, `"proof":{"rounds":9223372036854775807,"updates":0}`, "proof"},
		{`"round_ns":[5000001,5000002]`, `"round_ns":[5000001,-5]`, "round_ns[1]: -5: not a duration"},
		{`"round_ns":[5000001,5000002]`, `"round_ns":[5000001,5000002,3]`, "unattributed_ns: 2 samples: want 3, one a round"},
		{`"round_ns":[5000001,5000002]`, `"round_ns":[5000001,NaN]`, "invalid character"},
		{`"round_ns":[5000001,5000002]`, `"round_ns":[5000001,9223372036854775807]`, "not a duration of a run"},
		{`"rtt_ns":[14,`, `"rtt_ns":[`, "rtt_ns: 3 samples: must be 4"},
		{`"encode"`, `"teleport"`, "no such phase"},
		{`"handshakes":6`, `"handshakes":-6`, "tls.handshakes: -6"},
		{`"handshake_ns":1700000`, `"handshake_ns":-1`, "tls.handshake_ns: -1"},
		{`"cipher":"TLS_AES_128_GCM_SHA256"`, `"cipher":""`, "tls.cipher: empty"},
		{`"cipher":"TLS_AES_128_GCM_SHA256"`, `"cipher":"` + strings.Repeat("A", 65) + `"`, "tls.cipher: 65 bytes long"},
		{`"pings_ns":[20000,`, `"pings_ns":[-1,`, "pings_ns[0]"},
		{`"rules":2`, `"rules":2,"error":"no room"`, "no room"},
	} {
		text := change(t, "answer.json", tt.from, tt.to)
		a, err := parseAnswer([]byte(text))
		if err == nil {
			_, _, err = a.fits(&orderBlock{Rounds: 3, Warmup: 2}, 2)
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%.80s: %v, want an error that holds %q", tt.to, err, tt.want)
		}
	}
}

// TestLongBlock: a block has no more timed rounds than were asked for, as each of
// them makes the reference chain longer.
func TestLongBlock(t *testing.T) {
	var a answer
	golden(t, "answer.json", &a)
	b := a.Block
	b.Phases = nil
	for _, s := range []*[]int64{&b.Round, &b.Unattributed, &b.Train, &b.RTT, &b.Down, &b.Up} {
		*s = make([]int64, mostRounds+1)
		for i := range *s {
			(*s)[i] = 1
		}
	}
	_, _, err := a.fits(&orderBlock{}, 1)
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%d timed rounds: a block has at most %d", mostRounds+1, mostRounds)) {
		t.Errorf("got %v", err)
	}
}
