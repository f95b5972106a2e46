package analysis

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ipcbench/transports/driver"
)

// Narrow leaves only the cells that pass all filters. A filter is
// key=value[,value…] with a key transport, model, up, codec, change, scenario,
// link, language, workers or clients; the value of up is "model" where updates are like
// the model. The control of a cell
// that stays is still known, also where it does not stay itself.
func (r *Result) Narrow(filters []string) error {
	for _, f := range filters {
		key, values, ok := strings.Cut(f, "=")
		field, known := map[string]func(c *Cell) string{
			"transport": func(c *Cell) string { return c.Variant },
			"model":     func(c *Cell) string { return c.Model.Name },
			"up":        func(c *Cell) string { return cmp.Or(c.Model.Up, "model") },
			"codec":     (*Cell).Codec,
			"change":    func(c *Cell) string { return cmp.Or(c.Change, "100%") },
			"scenario":  func(c *Cell) string { return cmp.Or(c.Scenario, "fedavg") },
			"link":      func(c *Cell) string { return cmp.Or(c.Link, NoLink) },
			"language":  func(c *Cell) string { return cmp.Or(c.Language, "go") },
			"train-ms":  func(c *Cell) string { return strconv.Itoa(c.TrainMS) },
			"respawn":   func(c *Cell) string { return driver.OnOrOff(c.Respawn) },
			"nested":    func(c *Cell) string { return driver.OnOrOff(c.Nested) },
			"workers":   func(c *Cell) string { return strconv.Itoa(c.Workers) },
			"clients":   func(c *Cell) string { return strconv.Itoa(c.Clients) },
		}[key]
		if !ok || !known {
			return fmt.Errorf("%q: want transport=, model=, up=, codec=, change=, scenario=, link=, language=, workers= or clients=", f)
		}
		wanted := strings.Split(values, ",")
		r.Cells = slices.DeleteFunc(r.Cells, func(c *Cell) bool { return !slices.Contains(wanted, field(c)) })
		if len(r.Cells) == 0 {
			return fmt.Errorf("%q: no cell is left", f)
		}
	}
	return nil
}
