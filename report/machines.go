package report

import (
	"errors"
	"path/filepath"
	"slices"

	"ipcbench/bench/result"
	"ipcbench/report/contrast"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
)

// machinesView is a view that only markers can ask for: of a folder of results in place of one.
const machinesView = "machines"

// machines is two tables of results of one question, each measured on a machine of its own: what new memory and a
// wake-up cost there, and the transports in order.
func machines(dir, folder string, results map[string]*result.Result) (s doc.Section, err error) {
	paths, err := filepath.Glob(filepath.Join(dir, folder, "*.json.gz"))
	if err != nil || len(paths) == 0 {
		return s, errors.Join(err, errors.New("no FILE.json.gz is in the folder "+folder))
	}
	t := doc.Table{Columns: []doc.Column{{Name: "machine", Wrap: true}, {Name: "last-level cache"},
		{Name: "new page", Unit: "s", Help: "the price of writing 4 KiB of new shared memory: 4096 B ÷ the floor first-touch"},
		{Name: "wake-up", Unit: "s", Help: "from one process to a sleeping one and back: the floor futex"}}}
	orders := doc.Table{Columns: []doc.Column{{Name: "machine", Wrap: true}, {Name: "model"},
		{Name: "order", Wrap: true, Help: "transports from the fastest on, with the time of a round as a multiple of it; = joins those that are too close to it to call"}}}
	for _, path := range paths {
		r, err := citable(dir, filepath.Join(folder, filepath.Base(path)), results)
		if err != nil {
			return s, err
		}
		e := r.Environment
		name := e.CPU + ", " + doc.Plural(e.CPUs, "processor") + ", kernel " + e.Kernel
		cache := "" // unknown
		if e.LLC > 0 {
			cache = doc.Quantity("iB", float64(e.LLC))
		}
		for _, verdict := range contrast.Verdicts(metrics.New(r)) {
			best := verdict.Best()
			if name != "" {
				page := best.FloorValue(metrics.FloorTouch).Map(func(rate float64) float64 { return 4096 / rate })
				t.Add(name, cache, page, best.FloorValue(metrics.FloorFutex))
			}
			orders.Add(name, best.Model.Name, order(verdict))
			name = "" // it stands in its first row only
		}
	}
	return doc.Section{Tables: []doc.Table{t, orders}}, nil
}

// order writes the cells of a ranking from the fastest on.
func order(v contrast.Verdict) (text string) {
	best, fastest := v.Best().Of("round").Center, v.Fastest()
	for i, c := range v.Ranked {
		switch {
		case i == 0:
			text = c.Variant
		case slices.Contains(fastest, c):
			text += " = " + c.Variant
		default:
			text += ", " + c.Variant + " " + doc.Quantity("1", c.Of("round").Center/best)
		}
	}
	return text
}
