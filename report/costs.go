package report

import "ipcbench/bench/stat"

// costTables hold what a round costs besides time: for every delivered GB, so that
// models can be compared, and what its first round cost, when memory is new.
func costTables(v *view) section {
	s := section{
		title: "Costs",
		tail: []string{"Of server and workers together, over exactly the timed rounds; GB are delivered payload. faults: page faults without a disk. switches: times that a thread had to wait. " +
			"queued for a processor: time of a round in which threads could have run. on the wire: bytes handed to sockets and files, over payload. " +
			"cold round: the first round of a block, in which memory is touched for the first time; it counts nowhere else. " +
			"recorder: what recording took of the rounds. machine busy: the part of the machine's CPU time that anybody used meanwhile."},
	}
	kilobytes := scale{"kB", 1e3}
	for _, cells := range v.groups() {
		t := table{
			caption: cells[0].group().title(),
			header: []string{"transport", "user s/GB", "system s/GB", "faults/GB", "switches/GB", "queued for a processor, ms", "on the wire",
				"objects allocated a round", "kB allocated a round", "PSS, MB", "shared, MB", "cold round, ms", "faults of it", "recorder", "machine busy"},
			words: 1,
		}
		for _, c := range cells {
			wire := none
			if sent := c.of("wire_bytes"); sent.Known() {
				wire = fixed(sent.Center/float64(c.Payload()), 3) + "×" // of handles, nothing that could be seen
			}
			t.add(c.Variant, plain.value(c.of("cpu_user_per_gb")), plain.value(c.of("cpu_system_per_gb")), plain.value(c.of("minor_faults")),
				plain.value(c.of("voluntary_switches")), milliseconds.value(c.of("queue_wait")), wire,
				plain.value(c.of("allocs")), kilobytes.value(c.of("alloc_bytes")), megabytes.value(c.of("pss")), megabytes.value(c.of("shmem")),
				milliseconds.show(c.of("cold_round")), plain.value(c.of("cold_faults")),
				shareOf(c.of("recorder_share")), shareOf(c.of("machine_busy")))
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
