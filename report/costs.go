package report

import (
	"ipcbench/bench/stat"
	"ipcbench/report/analysis"
)

// costTables hold what a round costs besides time: for every delivered GB, so that
// models can be compared, and what its first round cost, when memory is new.
func costTables(v *analysis.Result) section {
	s := section{
		title: "Costs",
		tail: []string{"Of server and workers together, over exactly the timed rounds; GB are delivered payload. faults: page faults without a disk. switches: times that a thread had to wait. " +
			"queued for a processor: time of a round in which threads could have run. on the wire: bytes handed to sockets and files, over payload. " +
			"cold round: the first round of a block, in which memory is touched for the first time; it counts nowhere else. " +
			"recorder: what recording took of the rounds. machine busy: the part of the machine's CPU time that anybody used meanwhile."},
	}
	kilobytes := scale{"kB", 1e3}
	for _, cells := range v.Groups() {
		t := table{
			caption: groupTitle(cells[0].Group()),
			header: []string{"transport", "user s/GB", "system s/GB", "faults/GB", "switches/GB", "queued for a processor, ms", "on the wire",
				"objects allocated a round", "kB allocated a round", "PSS, MB", "shared, MB", "cold round, ms", "faults of it", "recorder", "machine busy"},
			words: 1,
		}
		for _, c := range cells {
			wire := none
			if sent := c.Of("wire_bytes"); sent.Known() {
				wire = fixed(sent.Center/float64(c.Payload()), 3) + "×" // of handles, nothing that could be seen
			}
			t.add(c.Variant, plain.value(c.Of("cpu_user_per_gb")), plain.value(c.Of("cpu_system_per_gb")), plain.value(c.Of("minor_faults")),
				plain.value(c.Of("voluntary_switches")), milliseconds.value(c.Of("queue_wait")), wire,
				plain.value(c.Of("allocs")), kilobytes.value(c.Of("alloc_bytes")), megabytes.value(c.Of("pss")), megabytes.value(c.Of("shmem")),
				milliseconds.show(c.Of("cold_round")), plain.value(c.Of("cold_faults")),
				shareOf(c.Of("recorder_share")), shareOf(c.Of("machine_busy")))
		}
		t.trim()
		s.tables = append(s.tables, t)
	}
	return s
}

// shareOf writes an estimate in percent, with digits that count where it is small.
func shareOf(i stat.Interval) string {
	if !i.Known() {
		return none
	}
	return plain.number(100*i.Center) + " %"
}
