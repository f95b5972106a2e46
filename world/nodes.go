package world

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// longest is how long a host's name may be.
const longest = 255

var (
	entry = regexp.MustCompile(`^((?:[^][,]|\[[0-9,-]+\])+)(?:,|$)`)
	piece = regexp.MustCompile(`([^][]*)(?:\[([0-9,-]+)\])?`)
)

// Nodes returns the hosts of a list as Slurm writes them: gpu[08-10,12],login. Numbers
// keep their zeros, and a name may have several.
func Nodes(list string) (all []string, err error) {
	for list != "" {
		m := entry.FindStringSubmatch(list)
		if m == nil {
			return nil, fmt.Errorf("%q: want names with numbers in brackets, such as gpu[08-10,12],login", list)
		}
		list = list[len(m[0]):]
		names := []string{""}
		for _, p := range piece.FindAllStringSubmatch(m[1], -1) {
			endings, err := numbers(p[1], p[2])
			if err != nil {
				return nil, err
			}
			if names, err = joined(names, endings); err != nil {
				return nil, err
			}
		}
		if all = append(all, names...); len(all) > most {
			return nil, fmt.Errorf("more than %d nodes", most)
		}
	}
	if len(all) == 0 {
		return nil, errors.New("a list without nodes")
	}
	return all, nil
}

// numbers returns the name with each of the numbers that stand in its brackets, if it
// has any.
func numbers(name, ranges string) (all []string, err error) {
	if ranges == "" {
		return []string{name}, nil
	}
	for part := range strings.SplitSeq(ranges, ",") {
		low, high, is := strings.Cut(part, "-")
		if !is {
			high = low
		}
		from, err := strconv.ParseUint(low, 10, 31)
		to, err2 := strconv.ParseUint(high, 10, 31)
		if err := errors.Join(err, err2); err != nil || to < from || len(low) > 10 {
			return nil, fmt.Errorf("%q in brackets: want a number, or two with a minus between them", part)
		}
		for n := from; n <= to; n++ {
			if all = append(all, fmt.Sprintf("%s%0*d", name, len(low), n)); len(all) > most {
				return nil, fmt.Errorf("%q in brackets: more than %d nodes", part, most)
			}
		}
	}
	return all, nil
}

// joined returns all names with all endings.
func joined(names, endings []string) (all []string, err error) {
	if len(names)*len(endings) > most {
		return nil, fmt.Errorf("more than %d nodes", most)
	}
	for _, name := range names {
		for _, e := range endings {
			if len(name)+len(e) > longest {
				return nil, fmt.Errorf("a node with a name of more than %d bytes", longest)
			}
			all = append(all, name+e)
		}
	}
	return all, nil
}
