package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ipcbench/report/doc"
)

// settings are the values of a command's flags, and where they come from: the
// command line, else the file of --config, else the default. A flag that has a value
// from either of the two was given.
type settings struct {
	flags   *pflag.FlagSet
	file    string
	trusted bool              // --allow-commands
	origins map[string]string // of flags that the file sets: its name and the line
}

// What a flag's annotations say: where its value may come from.
const (
	ownLine   = "only on the command line" // a key of no file
	harmful   = "what it does"             // a key only of files that are trusted
	insteadOf = "given instead of"         // replaces these, if they come from further away
)

// The variables that count: the file of --config, and what ranks of a world need. No
// flag has the token, since everybody can read command lines.
const (
	configVariable = envPrefix + "CONFIG"
	tokenVariable  = envPrefix + "TOKEN"
	addrVariable   = envPrefix + "ADDR"

	envPrefix  = "IPCBENCH_"
	testPrefix = envPrefix + "TEST_" // of our tests
)

// note adds an annotation to flags.
func note(fs *pflag.FlagSet, annotation, value string, flags ...string) {
	for _, flag := range flags {
		if err := fs.SetAnnotation(flag, annotation, []string{value}); err != nil {
			panic(err) // no such flag
		}
	}
}

func noted(f *pflag.Flag, annotation string) bool {
	_, ok := f.Annotations[annotation]
	return ok
}

// configurable lets the flags of cmd, which has all of them, come from a file, too. It
// is called last.
func (a *app) configurable(cmd *cobra.Command) *settings {
	fs := cmd.Flags()
	s := &settings{flags: fs, origins: map[string]string{}}
	fs.StringVar(&s.file, "config", "", "take what is not given here from `FILE`, in YAML, whose keys are flags")
	fs.BoolVar(&s.trusted, "allow-commands", false, "trust the file of --config: let it name programs to run, and files to write")
	offer(fs, "transport", a.transportWords)
	if err := cmd.MarkFlagFilename("config", "yaml", "yml"); err != nil {
		panic(err) // no such flag
	}
	note(fs, ownLine, "", "config", "allow-commands")
	run := cmd.RunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error { return s.settle(a, cmd.Root()) }
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return s.placed(run(cmd, args)) }
	return s
}

// keys returns what may stand in a file: the flags of run, which has all that others have,
// so that one file serves them all.
func keys(root *cobra.Command) (names []string) {
	run, _, _ := root.Find([]string{"run"}) // it is there
	run.Flags().VisitAll(func(f *pflag.Flag) {
		if !noted(f, ownLine) && f.Name != "help" {
			names = append(names, f.Name)
		}
	})
	return names
}

// settle gives flags the values that the file has for them.
func (s *settings) settle(a *app, root *cobra.Command) error {
	for _, line := range s.stray(os.Environ()) {
		fmt.Fprintf(a.err, "ipcbench: %s\n", doc.Lines(line))
	}
	if s.file = cmp.Or(s.file, os.Getenv(configVariable)); s.file == "" {
		return nil
	}
	known, given := keys(root), s.given()
	entries, err := readConfig(s.file)
	if err != nil {
		return usagef("--config %w", err)
	}
	for _, e := range entries {
		f := s.flags.Lookup(e.key)
		switch {
		case f != nil && noted(f, ownLine) && !slices.Contains(known, e.key):
			return usagef("--config %s: %s: stands only on the command line", e.place, e.key)
		case !slices.Contains(known, e.key):
			return hinted{usagef("--config %s: %s: no such setting", e.place, e.key), meant("", e.key, known, "ipcbench run --dry-run prints all")}
		case f == nil || noted(f, ownLine): // another command's
			continue
		case noted(f, harmful) && !s.trusted:
			return hinted{usagef("--config %s: %s: %s, which no file may", e.place, e.key, f.Annotations[harmful][0]), "if you trust the file: --allow-commands, on the command line"}
		case given[e.key]:
			continue
		}
		if err := e.set(s.flags, f); err != nil {
			return usagef("--config %s: %s: %w", e.place, e.key, err)
		}
		s.origins[e.key] = e.place
	}
	return nil
}

// given returns the flags that have a value, and those that such a flag replaces.
func (s *settings) given() map[string]bool {
	all := map[string]bool{}
	s.flags.Visit(func(f *pflag.Flag) {
		all[f.Name] = true
		if f.Value.String() != "false" {
			for _, other := range f.Annotations[insteadOf] {
				all[other] = true
			}
		}
	})
	return all
}

// stray names the variables that look like ours and have no effect: once, each flag had
// one.
func (s *settings) stray(environ []string) (lines []string) {
	count := []string{configVariable, tokenVariable, addrVariable, envPrefix + "RANK", envPrefix + "WORLD"}
	for _, e := range environ {
		name, value, _ := strings.Cut(e, "=")
		rest, ours := strings.CutPrefix(name, envPrefix)
		if !ours || value == "" || strings.HasPrefix(name, testPrefix) || slices.Contains(count, name) {
			continue
		}
		line := name + " is set and has no effect"
		if flag := strings.ToLower(strings.ReplaceAll(rest, "_", "-")); s.flags.Lookup(flag) != nil {
			line += ": use --" + flag + ", or name a file of settings in " + configVariable
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return lines
}

var leadingFlag = regexp.MustCompile(`^--([a-z-]+)`)

// placed says where the value comes from that a mistake is in.
func (s *settings) placed(err error) error {
	var mistake usageError
	if !errors.As(err, &mistake) {
		return err
	}
	if m := leadingFlag.FindStringSubmatch(mistake.Error()); m != nil {
		if o, ok := s.origins[m[1]]; ok {
			return fmt.Errorf("%s: %w", o, err)
		}
	}
	return err
}

// command returns the command line, and behind it what came from a file: files change.
func (s *settings) command(args []string) []string {
	all := append([]string{"ipcbench"}, args...) // not by what path it was called
	s.flags.VisitAll(func(f *pflag.Flag) {
		if _, ok := s.origins[f.Name]; ok {
			text := f.Value.String()
			if _, list := f.Value.(pflag.SliceValue); list {
				text = text[1 : len(text)-1] // pflag puts brackets round lists
			}
			all = append(all, "--"+f.Name+"="+text)
		}
	})
	return all
}
