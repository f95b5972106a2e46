package metrics

import "strings"

// Noun returns the metric as a noun in a sentence, and the verb between it and an amount. If
// the metric is per round, the noun says so, and the unit need not.
func (m Metric) Noun() (verb, text string) {
	if known := map[string]string{
		"round": "takes a round", "cold_round": "takes the first round of a session", "spawn": "takes starting the workers",
		"transfer": "takes a client's transfer", "rtt": "takes a client's round trip", "train": "takes a client's training",
		"reconstruct": "takes reassembling a client's update", "restart": "is the share of a round in which its workers start and end",
		"down": "takes a client's downlink", "uplink": "takes a client's uplink", "up": "takes a client's training and uplink",
		"cpu_per_round": "is the CPU time per round", "cpu_server": "is the server's CPU time per round",
		"cpu_per_gb": "is the CPU time of delivered data", "rpcs": "are requests per round",
		"rpcs_tensors": "are requests per round that carry tensors", "connections": "are connections opened per round",
		"connecting":      "takes waiting for connections in a round, added up over workers,",
		"handshaking":     "takes waiting for handshakes in a round, added up over workers,",
		"client_rate":     "are clients served per second",
		"in_service":      "is the mean number of requests in service",
		"in_service_most": "is the highest number of requests in service at once",
		"queued_share":    "is the share of requests that wait for a thread of the server",
		"phase.queue":     "takes waiting for threads of the server in a round, added up over requests,",
		"queue_wait":      "takes waiting for a processor in a round, added up over threads,",
		"copies":          "are declared copies of each byte",
		"attested":        "is the share of tensors that used the transport's own mechanism",
		"cache_growth":    "is the growth of the workers' caches per round",
		"communication":   "is the share of a client's round trip that is not training", "overhead": "is the overhead per round",
		"peak_rss": "is the peak memory of all processes", "peak_rss_server": "is the server's peak memory",
		"peak_rss_workers": "is the largest worker's peak memory",
		"queued":           "takes one client's waiting for threads of the server", "cold_work": "takes a cold round without starting the workers",
		"speedup_round": "is the speed-up of a round", "speedup_transfer": "is the speed-up of a client's transfer",
		"moving_share": "is the share of a round that moving tensors takes",
		"start_ratio":  "is the ratio of starting the workers to a cold round",
		"ratio_down":   "is the share of the models' bytes that is sent",
		"ratio_up":     "is the share of the updates' bytes that is sent",
	}[m.Name]; known != "" {
		verb, text, _ = strings.Cut(known, " ")
		return verb, text
	}
	if whole, p, ok := strings.Cut(m.Name, "_p9"); ok {
		_, text = Metric{Name: whole}.Noun()
		return "is", "the 9" + p + "th percentile of " + text
	}
	verb, text = "is", strings.ReplaceAll(m.Name, "_", " ")
	if strings.HasSuffix(m.Name, "s") && !strings.HasSuffix(m.Name, "ss") { // pss, and peak_rss, are no plurals
		verb = "are"
	}
	unit, perRound := strings.CutSuffix(m.Unit, "/round")
	if perRound {
		text += " per round"
	}
	if unit == "s" {
		verb = "takes"
	}
	if phase, ok := strings.CutPrefix(text, "phase."); ok {
		text = "phase " + phase + ", added up over all processes,"
	}
	return verb, text
}
