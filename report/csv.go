package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"ipcbench/bench"
	"ipcbench/bench/stat"
	"ipcbench/machine"
	"ipcbench/report/analysis"
	"ipcbench/report/doc"
)

// csvHeader is read by others' scripts: columns are added at its end only.
var csvHeader = []string{
	"transport", "model", "workers", "clients", "settings", "metric", "unit", "n", "median", "low", "high",
	"confidence", "blocks", "mode", "commit",
}

// writeCSV writes one row for each cell and metric, and one for each floor. A
// metric that a cell does not have has no row, and a cell that was skipped has one
// that says why. n is the number of samples that the median is made of, and blocks
// that of the sessions; low and high, between which it lies with that confidence,
// are empty where it is 0. Where a result holds two builds, the settings name the
// build, and the commit is its own; where updates are unlike the model, they name
// the update.
func writeCSV(w io.Writer, r *bench.Result) error {
	v := analysis.New(r)
	out := csv.NewWriter(w)
	_ = out.Write(csvHeader) // errors are kept until Flush
	for _, c := range v.Cells {
		row := []string{doc.Literal(c.Transport), doc.Literal(c.Model.Name), strconv.Itoa(c.Workers), strconv.Itoa(c.Clients), doc.Literal(pairs(cellSettings(c)))}
		for _, m := range analysis.Metrics() {
			if i := c.Of(m.Name); i.Known() {
				_ = out.Write(append(slices.Clone(row), csvValues(v, m.Name, m.Unit, c.Build, i)...))
			}
		}
	}
	for _, s := range v.Skipped {
		why := map[string]string{"variant": s.Variant, "why": s.Why}
		if s.Up != "" {
			why["up"] = s.Up
		}
		_ = out.Write([]string{
			doc.Literal(s.Transport), doc.Literal(s.Model), strconv.Itoa(s.Workers), strconv.Itoa(s.Clients),
			doc.Literal(pairs(why)), "skipped", "", "0", "", "", "",
			"0", "0", doc.Literal(v.Plan.Mode), doc.Literal(fullCommit(v.EnvironmentOf(""))),
		})
	}
	for _, f := range v.Floors {
		model, of := "-", map[string]string{}
		if f.Model != "" {
			model = doc.Literal(f.Model)
		}
		if f.Up != "" {
			of["up"] = f.Up
		}
		if f.Clients > 0 {
			of["clients"] = strconv.Itoa(f.Clients)
		}
		if f.Gap > 0 {
			of["gap"] = fmt.Sprintf("%dns", f.Gap)
		}
		if f.Transport != "" {
			of["transport"] = f.Transport
		}
		if f.Variant != "" {
			of["variant"] = f.Variant
		}
		_ = out.Write(append([]string{"floor", model, "1", "1", doc.Literal(pairs(of))}, csvValues(v, doc.Literal(f.Name), doc.Literal(f.Unit), "", stat.Of(f.Blocks))...))
	}
	out.Flush()
	return out.Error()
}

// cellSettings are those of the transport, with the build where there are two and the
// update where it is unlike the model.
func cellSettings(c *analysis.Cell) map[string]string {
	s := map[string]string{}
	maps.Copy(s, c.Settings)
	for name, value := range map[string]string{"build": c.Build, "up": c.Model.Up} {
		if value != "" {
			s[name] = value
		}
	}
	return s
}

// pairs writes key=value;key=value, sorted.
func pairs(settings map[string]string) string {
	var all []string
	for _, k := range slices.Sorted(maps.Keys(settings)) {
		all = append(all, k+"="+settings[k])
	}
	return strings.Join(all, ";")
}

func csvValues(v *analysis.Result, name, unit, build string, i stat.Interval) []string {
	low, high := "", ""
	if i.Confidence > 0 {
		low, high = csvNumber(i.Low), csvNumber(i.High)
	}
	return []string{
		name, unit, strconv.Itoa(i.N), csvNumber(i.Center), low, high,
		csvNumber(i.Confidence), strconv.Itoa(i.Blocks), doc.Literal(v.Plan.Mode), doc.Literal(fullCommit(v.EnvironmentOf(build))),
	}
}

// csvNumber leaves out the digits that arithmetic made.
func csvNumber(x float64) string { return strconv.FormatFloat(x, 'g', 12, 64) }

// fullCommit names what a build was made of, for other programs.
func fullCommit(e machine.Environment) string {
	if e.Dirty {
		return e.Commit + "+dirty"
	}
	return e.Commit
}
