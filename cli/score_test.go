package cli

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"ipcbench/bench/stat"
	"ipcbench/internal/test/check"
	"ipcbench/report/doc"
)

// scores are what came of all tries of TestFaults.
type scores struct {
	seed  uint64
	began time.Time
	mu    sync.Mutex
	rows  map[string]*score // by fault; guarded by mu
}

// A score is what came of one fault.
type score struct {
	variants map[string]bool
	tries    int
	refused  int       // by the kernel, so they are no tries
	took     []float64 // seconds, of all tries that had their fault
	quiet    bool      // nothing can be said
	failed   int       // for whatever reason
	unnamed  int
	missed   int
	left     int
	after    int
	kept     int
	wrong    int64
	checked  int64
}

// row returns the score of a fault. The caller holds s.mu.
func (s *scores) row(c try) *score {
	if s.rows == nil {
		s.rows = map[string]*score{}
	}
	if s.rows[c.name] == nil {
		s.rows[c.name] = &score{variants: map[string]bool{}, quiet: c.code < 0}
	}
	return s.rows[c.name]
}

// refuse counts a try that cannot be made here.
func (s *scores) refuse(c try) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.row(c).refused++
}

// add counts a try, also one that has ended half-way.
func (s *scores) add(c try, o outcome, failed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	row := s.row(c)
	row.variants[c.variant] = true
	row.tries++
	if o.took > 0 {
		row.took = append(row.took, o.took.Seconds())
	}
	row.missed += o.missed
	row.left += o.left
	row.after += o.after
	row.wrong += o.wrong
	row.checked += o.checked
	for count, is := range map[*int]bool{&row.failed: failed, &row.unnamed: !o.named, &row.kept: o.checked > 0} {
		if is {
			*count++
		}
	}
}

// show prints the table, in 80 columns: as a log, which only a test that fails shows, and
// of make soak always. IPCBENCH_TEST_TABLE names a file that it is written to as well.
func (s *scores) show(t *testing.T) {
	text, err := s.text()
	check.OK(t, err)
	if name := os.Getenv("IPCBENCH_TEST_TABLE"); name != "" {
		check.OK(t, os.WriteFile(name, []byte(text), 0o644))
	}
	if os.Getenv("IPCBENCH_TEST_SOAK") != "" {
		fmt.Print("\n", text, "\n")
		return
	}
	t.Logf("\n%s", text)
}

func (s *scores) text() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var text strings.Builder
	err := s.table().Text(&text, doc.TextOptions{Width: 80})
	return text.String(), err
}

func (s *scores) table() doc.Document {
	table := doc.Table{Columns: []doc.Column{
		{Name: "fault"}, {Name: "on", Unit: "1"}, {Name: "runs", Unit: "1"}, {Name: "median"}, {Name: "worst"},
		{Name: "left"}, {Name: "wrong"}, {Name: "unnamed"}, {Name: "failed", Unit: "1"},
	}}
	var all score
	kills, quiet := 0, 0
	var refused []string
	for _, f := range faults() {
		row := s.rows[f.name]
		if row == nil {
			continue
		}
		if row.refused > 0 {
			refused = append(refused, fmt.Sprintf("%s (%d)", f.name, row.refused))
		}
		if row.tries == 0 {
			continue
		}
		left, unnamed := strconv.Itoa(row.left), strconv.Itoa(row.unnamed)
		wrong := fmt.Sprintf("%d/%s", row.wrong, volume(row.checked))
		if row.quiet {
			left, unnamed = fmt.Sprintf("%d>%d", row.left, row.after), "-"
			all.kept += row.kept
			quiet += row.tries
			if row.wrong == 0 && row.checked == 0 {
				wrong = "-"
			}
		}
		median, worst := "-", "-"
		if len(row.took) > 0 {
			median, worst = seconds(stat.Median(row.took)), seconds(slices.Max(row.took))
		}
		table.Add(doc.Words(f.name), doc.Number(float64(len(row.variants))), doc.Number(float64(row.tries)),
			doc.Words(median), doc.Words(worst), doc.Words(left), doc.Words(wrong), doc.Words(unnamed), doc.Number(float64(row.failed)))
		all.missed += row.missed
		all.tries += row.tries
		all.failed += row.failed
		if strings.HasPrefix(f.name, "kill") {
			kills += row.tries
		}
	}
	table.Notes = []string{
		"on: so many variants. median, worst: from the fault until the run has ended, by itself or after " + seconds(soon.Seconds()) + " by force; of a server that is killed, until its workers are gone. Where an interrupt or a kill follows a stop, from that signal. A worker that is stopped is named after --round-limit, so its row includes these " + seconds(roundLimit.Seconds()) + ". What is full is noticed when a session next needs it.",
		fmt.Sprintf("Up to %s runs at a time on %d processors: times include waiting for a processor.", flag.Lookup("test.parallel").Value, runtime.NumCPU()),
		"left: directories in TMPDIR and in /dev/shm, other files, sockets and processes; of a server that is killed, before>after ipcbench clean.",
		"wrong: bytes, of all bytes in the blocks that results kept, which ended before the fault, or with an interrupt; a run that meets a wrong one ends and says so, which counts as a round of it. Bytes were compared with the reference chain by hash, and in every second round element by element (--verify all).",
		fmt.Sprintf("A server that is killed says nothing. Of these %d runs, %d had saved blocks, which can be read and are proved; - is where none had.", quiet, all.kept),
		"unnamed: runs that ended without an error that names the fault, or not by themselves. failed: runs of which anything was not as it must be, also what has no column: the exit code, a result that cannot be read, a run that ended before its fault.",
		fmt.Sprintf("%d runs, %d failed; %d kills. What was hit seemed to have done its work, the run went on, and was hit again: %d times. Refused by the kernel: %s. It took %v. IPCBENCH_TEST_SEED=%d",
			all.tries, all.failed, kills, all.missed, cmp.Or(strings.Join(refused, ", "), "nothing"), time.Since(s.began).Round(time.Second), s.seed),
	}
	return doc.Document{Title: "Crashes", Sections: []doc.Section{{Tables: []doc.Table{table}}}}
}

// seconds returns a time as a table of any times has it.
func seconds(s float64) string {
	if s >= 1 {
		return fmt.Sprintf("%.3g s", s)
	}
	return fmt.Sprintf("%.0f ms", 1000*s)
}

// volume returns a number of bytes in few letters.
func volume(n int64) string {
	switch f := float64(n); {
	case n < 1e9:
		return fmt.Sprintf("%.0f MB", f/1e6)
	case n < 1e10:
		return fmt.Sprintf("%.1f GB", f/1e9)
	default:
		return fmt.Sprintf("%.0f GB", f/1e9)
	}
}

// TestScores: the table counts every try, also one that came to nothing, and is no wider
// than 80 columns.
func TestScores(t *testing.T) {
	s := &scores{seed: 1<<64 - 1, began: time.Now()}
	for _, f := range faults() {
		if f.name == "full memory" {
			s.refuse(try{fault: f})
			continue
		}
		for n := range f.tries {
			s.add(try{fault: f, variant: strconv.Itoa(n % 23)}, outcome{took: 9994 * time.Millisecond, named: true, left: 3, checked: 2e7}, false)
		}
	}
	hung := faults()[0]
	s.add(try{fault: hung}, outcome{took: 101 * time.Second}, true)
	s.add(try{fault: hung}, outcome{}, true) // it ended before its fault
	s.add(try{fault: hung}, outcome{named: true, took: time.Second}, true)
	early := faults()[2]
	s.rows[early.name] = nil
	s.add(try{fault: early}, outcome{}, true)
	text, err := s.text()
	check.Must(t, err)
	for line := range strings.Lines(text) {
		if line = strings.TrimSuffix(line, "\n"); utf8.RuneCountInString(line) > 80 || strings.TrimRight(line, " ") != line {
			t.Errorf("wider than 80 columns, or ends in spaces: %q", line)
		}
	}
	text = strings.Join(strings.Fields(text), " ")
	for _, want := range []string{
		"kill worker 24 503 9.99 s 101 s 1500 0/10 GB 2 3 kill server 23 500 9.99 s 9.99 s 1500>0 0/10 GB - 0 ",
		"terminate worker 1 1 - - 0 0/0 MB 1 1 ",
		"Refused by the kernel: full memory (1).",
	} {
		check.That(t, strings.Contains(text, want), "no %q in\n%s", want, text)
	}
}

// TestFaultsText: CONTRIBUTING says how many runs there are.
func TestFaultsText(t *testing.T) {
	sum, tries := 0, map[string]int{}
	for _, f := range faults() {
		sum += f.tries
		tries[f.name] = f.tries
	}
	text, err := os.ReadFile("../CONTRIBUTING.md")
	check.Must(t, err)
	want := fmt.Sprintf("disturbs %d,%03d runs of the command, one fault each: %d of them lose a worker to SIGKILL and %d the server.",
		sum/1000, sum%1000, tries["kill worker"], tries["kill server"])
	check.That(t, strings.Contains(strings.Join(strings.Fields(string(text)), " "), want), "CONTRIBUTING.md does not say %q", want)
}
