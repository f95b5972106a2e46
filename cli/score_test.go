package cli

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"ipcbench/bench/stat"
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
	took     []float64 // seconds
	quiet    bool      // nothing can be said
	unnamed  int
	missed   int
	left     int
	after    int
	wrong    int64
	checked  int64
}

func (s *scores) add(c try, o outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rows == nil {
		s.rows = map[string]*score{}
	}
	row := s.rows[c.name]
	if row == nil {
		row = &score{variants: map[string]bool{}, quiet: c.code < 0}
		s.rows[c.name] = row
	}
	row.variants[c.variant] = true
	row.took = append(row.took, o.took.Seconds())
	row.missed += o.missed
	row.left += o.left
	row.after += o.after
	row.wrong += o.wrong
	row.checked += o.checked
	if !o.named {
		row.unnamed++
	}
}

// show prints the table, in 80 columns: as a log, which only a test that fails shows, and
// of make soak always.
func (s *scores) show(t *testing.T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var text strings.Builder
	if err := s.table().Text(&text, doc.TextOptions{Width: 80}); err != nil {
		t.Error(err)
	}
	if os.Getenv("IPCBENCH_TEST_SOAK") != "" {
		fmt.Print("\n", text.String(), "\n")
		return
	}
	t.Logf("\n%s", text.String())
}

func (s *scores) table() doc.Document {
	table := doc.Table{Columns: []doc.Column{
		{Name: "fault"}, {Name: "on", Unit: "1"}, {Name: "tries", Unit: "1"}, {Name: "median"}, {Name: "worst"},
		{Name: "left"}, {Name: "bytes wrong"}, {Name: "unnamed"},
	}}
	kills, missed := 0, 0
	for _, f := range faults() {
		row := s.rows[f.name]
		if row == nil {
			continue
		}
		left, unnamed := strconv.Itoa(row.left), strconv.Itoa(row.unnamed)
		if row.quiet {
			left, unnamed = fmt.Sprintf("%d > %d", row.left, row.after), "-"
		}
		table.Add(doc.Words(f.name), doc.Number(float64(len(row.variants))), doc.Number(float64(len(row.took))),
			doc.Words(seconds(stat.Median(row.took))), doc.Words(seconds(slices.Max(row.took))), doc.Words(left),
			doc.Words(fmt.Sprintf("%d of %.2g GB", row.wrong, float64(row.checked)/1e9)), doc.Words(unnamed))
		missed += row.missed
		if strings.HasPrefix(f.name, "kill") {
			kills += len(row.took)
		}
	}
	table.Notes = []string{
		"on: so many variants. median, worst: from the fault until the run has ended with an error that names it; of a server that is killed, until its workers are gone. A process that is stopped is named after --round-limit, here 3 s; what is full is noticed when a session next needs it.",
		"left: directories in TMPDIR and in /dev/shm, other files, sockets and processes; of a server that is killed, before > after ipcbench clean.",
		"bytes wrong: a round of each run whose error says that data is wrong, of all bytes in the blocks that results kept. Those were compared with the reference chain by hash, and in every second round element by element (--verify all).",
		"unnamed: runs that ended without an error that names the fault.",
		fmt.Sprintf("%d kills. %d times, the worker that was hit had done its work, and the next one was hit. It took %v. IPCBENCH_TEST_SEED=%d",
			kills, missed, time.Since(s.began).Round(time.Second), s.seed),
	}
	return doc.Document{Title: "Crashes", Sections: []doc.Section{{Tables: []doc.Table{table}}}}
}

// seconds returns a time as a table of any times has it.
func seconds(s float64) string {
	if s >= 1 {
		return fmt.Sprintf("%.2f s", s)
	}
	return fmt.Sprintf("%.0f ms", 1000*s)
}
