package benchtest

import (
	"strconv"
	"strings"
	"testing"

	"ipcbench/bench/result"
	"ipcbench/internal/test/check"
	"ipcbench/tensor/models"
	"ipcbench/trainer"
	"ipcbench/transports"
	"ipcbench/transports/driver"
)

// A plainSpec has the fields of session.Spec, whose package imports this one in its tests.
type plainSpec = struct {
	Variant    transports.Variant
	Model, Up  *models.Model
	Workers    int
	Clients    int
	PerProcess int
	Depth      int
	result.Setup
	Question string
}

// Specs returns cells over some transports or programs. Each text is a variant, a model, and settings as in cells' names,
// such as "pickle cnn clients=2 nested=on". The default is one worker and one client. Cells with the same model share
// it.
func Specs[S ~plainSpec, K driver.Subject](t testing.TB, subjects []K, texts ...string) (all []S) {
	t.Helper()
	known := map[string]*models.Model{}
	shared := func(text string, m *models.Model, err error) *models.Model {
		t.Helper()
		check.Must(t, err)
		if known[text] == nil {
			known[text] = m
		}
		return known[text]
	}
	for _, text := range texts {
		words := strings.Fields(text)
		v := check.Value(transports.Parse(words[0], subjects))(t)
		m, err := models.Parse(words[1])
		s := plainSpec{Variant: v, Model: shared(words[1], m, err), Workers: 1, Clients: 1, PerProcess: 1, Depth: trainer.DefaultDepth}
		for _, word := range words[2:] {
			key, value, _ := strings.Cut(word, "=")
			number := map[string]*int{
				"workers": &s.Workers, "clients": &s.Clients, "lanes-per-process": &s.PerProcess, "depth": &s.Depth, "train-ms": &s.TrainMS,
			}[key]
			switch {
			case number != nil:
				*number, err = strconv.Atoi(value)
			case key == "up":
				up, err := models.Update(value, s.Model)
				s.Up = shared(words[1]+" "+word, up, err)
			case key == "change":
				err = s.Change.UnmarshalText([]byte(value))
			case key == "link":
				err = s.Link.UnmarshalText([]byte(value))
			default:
				word := map[string]*string{"values": &s.Values, "scenario": &s.Scenario, "language": &s.Language, "train": &s.Train}[key]
				on := map[string]*bool{"respawn": &s.Respawn, "nested": &s.Nested}[key]
				check.Need(t, word != nil || on != nil, "%s: there is no %s", text, key)
				if word != nil {
					*word = value
				} else {
					*on = true
				}
			}
			check.Must(t, err, text)
		}
		all = append(all, S(s))
	}
	return all
}
