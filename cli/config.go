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

// largestConfig is the size limit of a settings file in bytes. A file with all settings has
// 2,000.
const largestConfig = 64 << 10

// An entry is a key of a settings file, with its value.
type entry struct {
	key   string
	place string // FILE:LINE
	value *yaml.Node
}

// readConfig reads a settings file. The file is untrusted, because it may come from another
// person's branch. Errors begin with the path.
func readConfig(path string) ([]entry, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, errors.Unwrap(err))
	case !info.Mode().IsRegular(): // reading a pipe would wait for a writer
		return nil, fmt.Errorf("%s: not a regular file", path)
	case info.Size() > largestConfig:
		return nil, fmt.Errorf("%s: larger than %d bytes: not a settings file", path, largestConfig)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, errors.Unwrap(err))
	}
	return parseConfig(path, text)
}

// parseConfig reads settings: a single YAML mapping from names to values and lists of values.
// It rejects all other YAML.
func parseConfig(path string, text []byte) ([]entry, error) {
	var doc, second yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(text))
	switch err := d.Decode(&doc); {
	case err == io.EOF: // only comments
		return nil, nil
	case err != nil:
		return nil, syntaxError(path, err)
	}
	if err := d.Decode(&second); err == nil {
		return nil, fmt.Errorf("%s:%d: a second document: only one is allowed", path, second.Line)
	} else if err != io.EOF {
		return nil, syntaxError(path, err)
	}
	root := doc.Content[0]
	place := func(n *yaml.Node) string { return fmt.Sprintf("%s:%d", path, n.Line) }
	if root.Kind == yaml.ScalarNode && root.ShortTag() == "!!null" {
		return nil, nil
	}
	if root.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s: must have lines such as transport: http", place(root))
	}
	var entries []entry
	seen := map[string]int{}
	for i := 0; i < len(root.Content); i += 2 {
		k, v := root.Content[i], root.Content[i+1]
		if k.Kind != yaml.ScalarNode {
			return nil, fmt.Errorf("%s: a key must be a name", place(k))
		}
		if first, again := seen[k.Value]; again {
			return nil, fmt.Errorf("%s: %s: already set in line %d", place(k), k.Value, first)
		}
		seen[k.Value] = k.Line
		entries = append(entries, entry{k.Value, place(k), v})
	}
	return entries, nil
}

// syntaxError returns the error of package yaml as PATH:LINE: MESSAGE.
func syntaxError(path string, err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if line, ok := strings.CutPrefix(text, "line "); ok {
		return fmt.Errorf("%s:%s", path, line)
	}
	return fmt.Errorf("%s: must be lines of NAME: VALUE, in YAML: %s", path, text)
}

// set sets the flag to the value of the entry.
func (e entry) set(fs *pflag.FlagSet, f *pflag.Flag) error {
	if e.value.Kind != yaml.SequenceNode {
		text, err := scalarText(e.value)
		if err != nil {
			return err
		}
		if f.Value.Type() == "bool" && text != "true" && text != "false" { // YAML 1.1 also had yes and on
			return fmt.Errorf("must be true or false, not %s", text)
		}
		err = fs.Set(f.Name, text)
		if wrong := (*pflag.InvalidValueError)(nil); errors.As(err, &wrong) {
			return refused(wrong)
		}
		return err
	}
	list, ok := f.Value.(pflag.SliceValue)
	if !ok {
		return errors.New("must be one value, not a list")
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

// scalarText returns the value as text for the command line, whichever type YAML assigns to
// it.
func scalarText(n *yaml.Node) (string, error) {
	switch {
	case n.Kind != yaml.ScalarNode || n.Anchor != "" || n.Style&yaml.TaggedStyle != 0:
		return "", errors.New("must be a plain value, or a list of plain values in [ ]")
	case n.ShortTag() == "!!null":
		return "", errors.New("no value")
	case strings.ContainsFunc(n.Value, func(r rune) bool { return !legible.Rune(r) }):
		return "", errors.New("has characters that cannot be printed")
	}
	return n.Value, nil
}

// write prints all settings as a settings file, with the source of each value. It must be
// called after defaults are settled. Defaults are commented out, because another flag or a
// later version may change them.
func (s *settings) write(out io.Writer) error {
	var failed error
	s.flags.VisitAll(func(f *pflag.Flag) {
		if !inFiles(f) {
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

// unset reports whether text is the zero value of a flag.
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

// scalar returns a YAML value that is read back as text.
func scalar(text string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Value: text}
	if n.ShortTag() == "!!null" {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}
