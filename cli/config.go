package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"ipcbench/internal/legible"
)

// largestConfig is for a file of settings, in bytes: all of them take two thousand.
const largestConfig = 64 << 10

// An entry is a key of a file of settings, with its value.
type entry struct {
	key   string
	place string // the file and the line
	value *yaml.Node
}

// readConfig reads a file of settings. It is untrusted: who runs a benchmark in a
// checkout of somebody's branch may take that branch's settings. Its errors begin
// with the file.
func readConfig(path string) ([]entry, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, errors.Unwrap(err))
	case !info.Mode().IsRegular(): // a pipe would wait for a writer
		return nil, fmt.Errorf("%s: no regular file", path)
	case info.Size() > largestConfig:
		return nil, fmt.Errorf("%s: larger than %d bytes: no file of settings", path, largestConfig)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, errors.Unwrap(err))
	}
	return parseConfig(path, text)
}

// parseConfig reads settings: one mapping of names to values and lists of values, and
// nothing else of what YAML has.
func parseConfig(path string, text []byte) ([]entry, error) {
	var doc, second yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(text))
	switch err := d.Decode(&doc); {
	case err == io.EOF: // nothing but comments
		return nil, nil
	case err != nil:
		return nil, syntaxError(path, err)
	}
	if err := d.Decode(&second); err == nil {
		return nil, fmt.Errorf("%s:%d: a second document: want one", path, second.Line)
	} else if err != io.EOF {
		return nil, syntaxError(path, err)
	}
	root := doc.Content[0]
	place := func(n *yaml.Node) string { return fmt.Sprintf("%s:%d", path, n.Line) }
	if root.Kind == yaml.ScalarNode && root.ShortTag() == "!!null" {
		return nil, nil
	}
	if root.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s: want lines such as transport: http", place(root))
	}
	var entries []entry
	seen := map[string]int{}
	for i := 0; i < len(root.Content); i += 2 {
		k, v := root.Content[i], root.Content[i+1]
		if k.Kind != yaml.ScalarNode {
			return nil, fmt.Errorf("%s: a key that is no name", place(k))
		}
		if first, again := seen[k.Value]; again {
			return nil, fmt.Errorf("%s: %s: stands in line %d already", place(k), k.Value, first)
		}
		seen[k.Value] = k.Line
		entries = append(entries, entry{k.Value, place(k), v})
	}
	return entries, nil
}

// syntaxError puts a file before what yaml says, and the line at its usual place.
func syntaxError(path string, err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if line, ok := strings.CutPrefix(text, "line "); ok {
		return fmt.Errorf("%s:%s", path, line)
	}
	return fmt.Errorf("%s: %s", path, text)
}

// set gives a flag the value of the entry.
func (e entry) set(fs *pflag.FlagSet, f *pflag.Flag) error {
	if e.value.Kind != yaml.SequenceNode {
		text, err := scalarText(e.value)
		if err != nil {
			return err
		}
		if f.Value.Type() == "bool" && text != "true" && text != "false" { // older YAML has yes and on
			return fmt.Errorf("%s: want true or false", text)
		}
		return fs.Set(f.Name, text)
	}
	list, ok := f.Value.(pflag.SliceValue)
	if !ok {
		return errors.New("a list, where one value belongs")
	}
	texts := []string{}
	for _, n := range e.value.Content {
		text, err := scalarText(n)
		if err != nil {
			return err
		}
		texts = append(texts, text)
	}
	f.Changed = true
	return list.Replace(texts)
}

// scalarText returns a value as the command line would have it, whatever type YAML
// sees in it.
func scalarText(n *yaml.Node) (string, error) {
	switch {
	case n.Kind != yaml.ScalarNode || n.Anchor != "" || n.Style&yaml.TaggedStyle != 0:
		return "", errors.New("want a plain value, or a list of them with [ ]")
	case n.ShortTag() == "!!null":
		return "", errors.New("no value")
	case strings.ContainsFunc(n.Value, func(r rune) bool { return !legible.Rune(r) }):
		return "", errors.New("holds what cannot be printed")
	}
	return n.Value, nil
}

// write prints all settings as a file of them, with where each value comes from. It
// is called when values are settled. What nobody gave stands as a comment: another flag,
// or a later version, may mean another default.
func (s *settings) write(out io.Writer) error {
	var failed error
	s.flags.VisitAll(func(f *pflag.Flag) {
		if noted(f, ownLine) || f.Name == "help" {
			return
		}
		source := "default"
		if s.origins[f.Name] != "" {
			source = "file"
		} else if f.Changed {
			source = "flag"
		}
		if source == "default" && unset(f.Value.String()) {
			fmt.Fprintf(out, "# %s:\n", f.Name)
			return
		}
		text, err := yaml.Marshal(&yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{scalar(f.Name), valueNode(f)}})
		if err != nil {
			failed = errors.Join(failed, usagef("--%s: %w", f.Name, err))
		}
		line := strings.TrimSuffix(string(text), "\n")
		if source == "default" {
			line = "# " + line
		}
		fmt.Fprintf(out, "%-40s # %s\n", line, source)
	})
	return failed
}

// unset reports whether a value is that of a flag which stands for nothing.
func unset(text string) bool {
	switch text {
	case "", "[]", "0", "0s", "0%":
		return true
	}
	return false
}

func valueNode(f *pflag.Flag) *yaml.Node {
	list, ok := f.Value.(pflag.SliceValue)
	if !ok {
		return scalar(f.Value.String())
	}
	n := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
	for _, text := range list.GetSlice() {
		n.Content = append(n.Content, scalar(text))
	}
	return n
}

// scalar returns a value that reads back as that text.
func scalar(text string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Value: text}
	if n.ShortTag() == "!!null" {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}
