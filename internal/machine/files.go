package machine

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/klauspost/cpuid/v2"
)

// text returns the trimmed contents of a file below root, or "" if it cannot be read.
// Containers may lack any file.
func text(root, name string) string {
	b, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// number returns the decimal number in a file; 0 if there is none.
func number(root, name string) (int64, bool) {
	n, err := strconv.ParseInt(text(root, name), 10, 64)
	return n, err == nil
}

// value returns the text after key and sep on the first such line of s.
func value(s, key, sep string) (string, bool) {
	for line := range strings.Lines(s) {
		if k, v, ok := strings.Cut(line, sep); ok && strings.TrimSpace(k) == key {
			return strings.TrimSpace(v), true
		}
	}
	return "", false
}

// chosen returns the word in brackets of "always [madvise] never".
func chosen(s string) string {
	_, rest, _ := strings.Cut(s, "[")
	word, _, ok := strings.Cut(rest, "]")
	if !ok {
		return unknown
	}
	return word
}

// memory returns MemTotal and MemAvailable of /proc/meminfo in bytes; zero if unknown.
func memory(root string) (total, available int64) {
	kibibytes := func(key string) int64 {
		v, _ := value(text(root, "proc/meminfo"), key, ":")
		n, err := strconv.ParseInt(strings.TrimSuffix(v, " kB"), 10, 64)
		if err != nil {
			return 0
		}
		return n << 10
	}
	return kibibytes("MemTotal"), kibibytes("MemAvailable")
}

// cpuModel returns the name that the processor reports (on x86 only), or else the name
// in /proc/cpuinfo.
func cpuModel(root string) string {
	if cpuid.CPU.BrandName != "" {
		return cpuid.CPU.BrandName
	}
	info := text(root, "proc/cpuinfo")
	for _, key := range []string{"model name", "Model", "CPU part", "uarch"} {
		if v, ok := value(info, key, ":"); ok && v != "" {
			return v
		}
	}
	return unknown
}

// count returns the number of elements of a list such as "0-3,8"; 0 if it is invalid.
func count(list string) int {
	n := 0
	for part := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err1 := strconv.ParseUint(first, 10, 16)
		to, err2 := strconv.ParseUint(last, 10, 16)
		if err1 != nil || err2 != nil || to < from {
			return 0
		}
		n += int(to-from) + 1
	}
	return n
}

// formatList formats ascending numbers as the kernel does, such as "0-3,8".
func formatList(list []int) string {
	var b strings.Builder
	for i := 0; i < len(list); {
		j := i
		for j+1 < len(list) && list[j+1] == list[j]+1 {
			j++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(list[i]))
		if j > i {
			b.WriteString("-" + strconv.Itoa(list[j]))
		}
		i = j + 1
	}
	return b.String()
}

// lastLevelCache returns the size of the largest cache that the first processor can
// fill, in bytes; 0 if unknown.
func lastLevelCache(root string) int64 {
	largest := int64(max(0, cpuid.CPU.Cache.L2, cpuid.CPU.Cache.L3))
	sizes, _ := fs.Glob(os.DirFS(root), "sys/devices/system/cpu/cpu0/cache/index*/size")
	for i, name := range sizes {
		if i == 0 {
			largest = 0 // prefer the kernel's sizes: it knows which cores share a cache
		}
		largest = max(largest, cacheSize(text(root, name)))
	}
	return largest
}

// cacheSize parses a size such as "32K" or "260M" into bytes; 0 if it is invalid.
func cacheSize(s string) int64 {
	unit := int64(1)
	switch {
	case strings.HasSuffix(s, "K"):
		s, unit = s[:len(s)-1], 1<<10
	case strings.HasSuffix(s, "M"):
		s, unit = s[:len(s)-1], 1<<20
	}
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil || n < 0 {
		return 0
	}
	return n * unit
}

// governor returns the frequency governors in use (usually one), joined by "+".
func governor(root string) string {
	names, _ := fs.Glob(os.DirFS(root), "sys/devices/system/cpu/cpu*/cpufreq/scaling_governor")
	var all []string
	for _, name := range names {
		if g := text(root, name); g != "" {
			all = append(all, g)
		}
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), "+")
}
