package slab

import (
	"testing"
	"testing/fstest"
)

func TestAvailable(t *testing.T) {
	const mem = "MemTotal: 100 kB\nMemAvailable:   50 kB\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
		limit string
	}{
		"nothing to read": {nil, 1<<63 - 1, "nothing"},
		"no group":        {map[string]string{"proc/meminfo": mem}, 50 << 10, "MemAvailable"},
		"version 2": {map[string]string{
			"proc/meminfo": mem, "proc/self/cgroup": "0::/a/b\n",
			"sys/fs/cgroup/a/memory.max": "30000\n", "sys/fs/cgroup/a/memory.current": "20000\n",
			"sys/fs/cgroup/a/memory.stat":  "anon 5\ninactive_file 1000\n",
			"sys/fs/cgroup/a/b/memory.max": "max\n",
		}, 11000, "the memory cgroup's memory.max"},
		"version 1": {map[string]string{
			"proc/meminfo": mem, "proc/self/cgroup": "5:cpu:/x\n4:memory:/a\n0::/\n",
			"sys/fs/cgroup/memory/a/memory.limit_in_bytes": "9000\n", "sys/fs/cgroup/memory/a/memory.usage_in_bytes": "10000\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
			"sys/fs/cgroup/memory/a/memory.stat":         "total_inactive_file 2000\n",
		}, 1000, "the memory cgroup's memory.limit_in_bytes"},
		"full": {map[string]string{
			"proc/self/cgroup":         "0::/\n",
			"sys/fs/cgroup/memory.max": "10", "sys/fs/cgroup/memory.current": "20",
		}, 0, "the memory cgroup's memory.max"},
		"path of the host": {map[string]string{
			"proc/self/cgroup":         "0::/docker/abc\n",
			"sys/fs/cgroup/memory.max": "10",
		}, 10, "the memory cgroup's memory.max"},
		"nonsense": {map[string]string{
			"proc/meminfo": "MemAvailable:\n", "proc/self/cgroup": "what\n0::../../x\n", "sys/fs/cgroup/memory.max": "",
		}, 1<<63 - 1, "nothing"},
	} {
		root := fstest.MapFS{}
		for path, text := range c.files {
			root[path] = &fstest.MapFile{Data: []byte(text)}
		}
		if got, limit := available(root); got != c.want || limit != c.limit {
			t.Errorf("%s: got %d by %s, want %d by %s", name, got, limit, c.want, c.limit)
		}
	}
	if got, limit := Available(); got <= 0 || limit == "nothing" {
		t.Errorf("this machine: got %d by %s", got, limit)
	}
}
