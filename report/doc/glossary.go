package doc

import (
	"regexp"
	"strings"
)

// A marker finds the terms of a document in its texts, so that each is explained
// where it stands first.
type marker struct {
	ids   map[string]string // of terms in lower case
	words *regexp.Regexp    // nil if there are no terms
	seen  map[string]bool   // by ID
}

func newMarker(terms []htmlHelp) marker {
	m := marker{ids: map[string]string{}, seen: map[string]bool{}}
	var words []string
	for _, t := range terms {
		m.ids[strings.ToLower(t.Name)] = t.ID
		words = append(words, regexp.QuoteMeta(t.Name))
	}
	if len(words) > 0 {
		m.words = regexp.MustCompile(`(?i)\b(` + strings.Join(words, "|") + `)(?:s|es)?\b`)
	}
	return m
}

// mark divides a text into words that are explained, since they stand in the document
// for the first time, and others.
func (m marker) mark(text string) (all []htmlWords) {
	done := 0
	for _, at := range m.find(text) {
		id := m.id(text, at)
		if m.seen[id] {
			continue
		}
		m.seen[id] = true
		if at[0] > done {
			all = append(all, htmlWords{Text: text[done:at[0]]})
		}
		all = append(all, htmlWords{text[at[0]:at[1]], id})
		done = at[1]
	}
	if done < len(text) {
		all = append(all, htmlWords{Text: text[done:]})
	}
	return all
}

// first returns the ID of the first term in a text.
func (m marker) first(text string) string {
	for _, at := range m.find(text) {
		return m.id(text, at)
	}
	return ""
}

// find returns where terms stand. Parts of names and flags are none.
func (m marker) find(text string) (all [][]int) {
	if m.words == nil {
		return nil
	}
	const joins = "-/_=:@"
	for _, at := range m.words.FindAllStringSubmatchIndex(text, -1) {
		if at[0] > 0 && strings.Contains(joins, text[at[0]-1:at[0]]) || at[1] < len(text) && strings.Contains(joins[:4], text[at[1]:at[1]+1]) {
			continue
		}
		all = append(all, at)
	}
	return all
}

func (m marker) id(text string, at []int) string { return m.ids[strings.ToLower(text[at[2]:at[3]])] }
