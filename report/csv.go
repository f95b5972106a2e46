package report

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"ipcbench/bench/result"
	"ipcbench/bench/stat"
	"ipcbench/report/analysis"
	"ipcbench/report/doc"
)

// csvHeader is read by others' scripts: columns are added at its end only.
var csvHeader = []string{
	"transport", "model", "workers", "clients", "settings", "metric", "unit", "n", "median", "low", "high",
	"confidence", "blocks", "mode", "commit",
}

// writeCSV writes one row for each cell and metric, and one for each floor. A
// metric that a cell does not have has no row. n is the number of samples that the
// median is made of, and blocks that of the blocks; low and high, between which it
// lies with that confidence, are empty where it is 0. Where a result holds two
// builds, the settings name the build, and the commit is its own; where updates are
// unlike the model, they name the update, and where a cell is on a link, changes
// some words only, has workers in another language or is a peer, that. Where workers were on other hosts, there is one more column:
// the host of a floor or of processes.
//
// These metrics are not of ipcbench list metrics:
//
//   - verdict.rank is 1 for the fastest transport of those that did the same work,
//     2 for the next, and so on.
//   - verdict.best is 1 for the fastest and for all that may be as fast, else 0.
//   - verdict.proved is 1 for all of them if the fastest is shown to be faster than
//     all others, else 0.
//   - verdict.round_more and verdict.cpu_more are what a round takes more than one
//     of the fastest: time, and CPU time.
//   - break_even is the rate of a link below which a codec pays.
//   - tls.round, tls.cpu and tls.wire are the round, CPU time and bytes on the wire with
//     TLS over those of the same without it.
//   - gain.transfer and gain.rtt are what a reference row takes over what the transport
//     takes that is named, with workers in Python.
//   - verdict.transfer_more is there where transfer ranks, and not the round.
//   - host.lanes, host.processes, host.cpu_per_round and host.peak_rss are what a cell
//     had and took on a host, without the server.
//   - finding.RULE is a finding; its severity and text stand in the settings, and
//     its numbers in rows finding.RULE.NUMBER. The transport of a finding about the
//     whole result is "-".
//   - skipped is a cell that was asked for and not measured; the settings say why.
func writeCSV(w io.Writer, r *result.Result, _ Options) error {
	v := analysis.New(r)
	out := csv.NewWriter(w)
	fleet := v.Fleet()
	write := func(host string, row []string) {
		if fleet != nil {
			row = append(slices.Clip(row), host)
		}
		_ = out.Write(row) // errors are kept until Flush
	}
	write("host", csvHeader)
	metrics := analysis.Metrics()
	for _, c := range v.Cells {
		row := csvCell(c)
		for _, m := range metrics {
			if i := c.Of(m.Name); i.Known() {
				write("", append(slices.Clone(row), csvValues(v, m.Name, m.Unit, c.Build, i)...))
			}
		}
	}
	for _, d := range v.Verdicts() {
		for k, c := range d.Ranked {
			add := func(name, unit string, i stat.Interval) {
				if i.Known() {
					write("", append(csvCell(c), csvValues(v, "verdict."+name, unit, c.Build, i)...))
				}
			}
			blocks := len(c.Timed())
			add("rank", "1", analysis.Exactly(float64(k+1), blocks, blocks))
			add("best", "1", analysis.Exactly(oneIf(slices.Contains(d.Fastest(), c)), blocks, blocks))
			add("proved", "1", analysis.Exactly(oneIf(d.Proved()), blocks, blocks))
			more := d.Cost(c)
			add("round_more", "s", more.Round)
			if d.Off != nil {
				add(d.By+"_more", "s", more.More)
			}
			add("cpu_more", "s", more.CPU)
		}
	}
	if fleet != nil {
		csvHosts(v, fleet, write)
	}
	for _, b := range v.BreakEvens() {
		if b.At.Known() {
			write("", append(csvCell(b.Coded), csvValues(v, "break_even", "bit/s", b.Coded.Build, b.At)...))
		}
	}
	for _, t := range v.Tunnels() {
		for _, c := range t.Cells() {
			for _, of := range [][2]string{{"round", "round"}, {"cpu", "cpu_per_gb"}, {"wire", "wire_bytes"}} {
				if i := t.Ratio(of[1], c); i.Known() {
					write("", append(csvCell(c), csvValues(v, "tls."+of[0], "1", c.Build, i)...))
				}
			}
		}
	}
	for _, g := range v.Gains() {
		for _, metric := range []string{"transfer", "rtt"} {
			write("", append(csvCell(g.To), csvValues(v, "gain."+metric, "1", g.To.Build, g.Times(metric))...))
		}
	}
	for _, f := range v.Findings() {
		if f.Rule == analysis.NotMeasured { // see below
			continue
		}
		of, build := []string{"-", "-", "0", "0"}, ""
		what := map[string]string{"severity": string(f.Severity), "text": f.Text}
		if c := f.Measured; c != nil {
			of, build = csvCell(c)[:4], c.Build
			maps.Copy(what, cellSettings(c))
		}
		of = append(of, doc.Literal(pairs(what)))
		name := "finding." + f.Rule
		write("", append(slices.Clone(of), csvValues(v, name, "", build, stat.None())...))
		for _, value := range f.Values {
			write("", append(slices.Clone(of), csvValues(v, name+"."+value.Name, base(value.Unit), build, value.Interval)...))
		}
	}
	for _, s := range v.Skipped {
		why := unusual(s.Setup)
		why["variant"], why["why"], why["up"] = s.Variant, s.Why, s.Up
		of := []string{doc.Literal(s.Transport), doc.Literal(s.Model), strconv.Itoa(s.Workers), strconv.Itoa(s.Clients), doc.Literal(pairs(why))}
		write("", append(of, csvValues(v, "skipped", "", "", stat.None())...))
	}
	for _, f := range v.Floors {
		of := unusual(f.Setup)
		of["up"], of["variant"], of["condition"] = f.Up, f.Variant, f.Condition
		if f.Bytes > 0 {
			of["bytes"] = strconv.FormatInt(f.Bytes, 10)
		}
		if f.Clients > 0 {
			of["clients"] = strconv.Itoa(f.Clients)
		}
		if f.Gap > 0 {
			of["gap"] = fmt.Sprintf("%dns", f.Gap)
		}
		write(doc.Literal(f.Host), append([]string{"floor", cmp.Or(doc.Literal(f.Model), "-"), "1", "1", doc.Literal(pairs(of))}, csvValues(v, doc.Literal(f.Name), doc.Literal(f.Unit), "", stat.Of(f.Blocks))...))
	}
	out.Flush()
	return out.Error()
}

// csvHosts writes rows of hosts.
func csvHosts(v *analysis.Result, f *analysis.Fleet, write func(host string, row []string)) {
	for _, h := range f.Hosts {
		name := doc.Literal(h.Name)
		for _, c := range v.Cells {
			lanes, processes := c.On(h.Host)
			if processes == 0 || !c.Remote() {
				continue
			}
			cpu, peak := c.Spent(h.Host)
			blocks := len(c.Timed())
			for _, of := range []struct {
				name, unit string
				value      stat.Interval
			}{
				{"lanes", "1", analysis.Exactly(float64(lanes), blocks, blocks)}, {"processes", "1", analysis.Exactly(float64(processes), blocks, blocks)},
				{"cpu_per_round", "s/round", cpu}, {"peak_rss", "B", peak},
			} {
				write(name, append(csvCell(c), csvValues(v, "host."+of.name, of.unit, c.Build, of.value)...))
			}
		}
	}
}

// cellSettings are those of the transport, with the build where there are two, the
// update where it is unlike the model, and what else a cell may do or be on.
func cellSettings(c *analysis.Cell) map[string]string {
	s := unusual(c.Setup)
	s["build"], s["up"], s["peer"], s["unproved"], s["hosts"], s["place"] = c.Build, c.Model.Up, c.Peer, c.Unproved, c.Hosts, c.Place
	maps.Copy(s, c.Settings)
	return s
}

// unusual returns the values in which a setup differs from the usual one, by their keys.
func unusual(s result.Setup) map[string]string {
	all := map[string]string{}
	for _, d := range s.Unusual() {
		all[d.Key] = d.Of(s)
	}
	return all
}

// pairs writes key=value;key=value, sorted, without those that have no value.
func pairs(settings map[string]string) string {
	var all []string
	for _, k := range slices.Sorted(maps.Keys(settings)) {
		if settings[k] != "" {
			all = append(all, k+"="+settings[k])
		}
	}
	return strings.Join(all, ";")
}

func csvValues(v *analysis.Result, name, unit, build string, i stat.Interval) []string {
	e := v.EnvironmentOf(build)
	return append([]string{name, unit, strconv.Itoa(i.N)}, append(csvInterval(i),
		csvNumber(i.Confidence), strconv.Itoa(i.Blocks), doc.Literal(v.Plan.Mode), doc.Literal(fullCommit(e.Commit, e.Dirty)))...)
}

// csvInterval returns the median and its bounds.
func csvInterval(i stat.Interval) []string {
	median, low, high := "", "", ""
	if i.Known() {
		median = csvNumber(i.Center)
	}
	if i.Confidence > 0 {
		low, high = csvNumber(i.Low), csvNumber(i.High)
	}
	return []string{median, low, high}
}

// csvCell returns the columns that say what was measured.
func csvCell(c *analysis.Cell) []string {
	return []string{doc.Literal(c.Transport), doc.Literal(c.Model.Name), strconv.Itoa(c.Workers), strconv.Itoa(c.Clients), doc.Literal(pairs(cellSettings(c)))}
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// csvNumber leaves out the digits that arithmetic made.
func csvNumber(x float64) string { return strconv.FormatFloat(x, 'g', 12, 64) }

// fullCommit names what a build was made of, for other programs.
func fullCommit(commit string, dirty bool) string {
	if dirty {
		return commit + "+dirty"
	}
	return commit
}
