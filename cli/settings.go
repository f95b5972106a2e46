package cli

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ipcbench/internal/near"
	"ipcbench/report/doc"
)

// settings are the values of a command's flags, and where they come from: the
// command line, else the environment, else the file of --config, else the default.
// A flag that has a value from any of the three was given.
type settings struct {
	flags   *pflag.FlagSet
	file    string
	trusted bool // --allow-commands
	origins map[string]origin
}

// An origin is where a value comes from that does not stand on the command line.
type origin struct{ kind, place string }

// What a flag's annotations say: where its value may come from.
const (
	ownLine   = "only on the command line" // a key of no file and no variable
	harmful   = "what it does"             // a key only of files that are trusted
	insteadOf = "given instead of"         // replaces these, if they come from further away
)

// envPrefix begins the variables that are flags, testPrefix those of our tests.
const (
	envPrefix  = "IPCBENCH_"
	testPrefix = envPrefix + "TEST_"
)

// variable returns the environment variable of a flag.
func variable(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// note adds an annotation to a flag.
func note(fs *pflag.FlagSet, flag, annotation string, values ...string) {
	if err := fs.SetAnnotation(flag, annotation, values); err != nil {
		panic(err) // no such flag
	}
}

func noted(f *pflag.Flag, annotation string) bool {
	_, ok := f.Annotations[annotation]
	return ok
}

// configurable lets the flags of cmd, which has all of them, come from the
// environment and from a file, too. It is called last.
func (a *app) configurable(cmd *cobra.Command) *settings {
	fs := cmd.Flags()
	s := &settings{flags: fs, origins: map[string]origin{}}
	fs.StringVar(&s.file, "config", "", "take what is not given here from `FILE`, in YAML, whose keys are flags")
	fs.BoolVar(&s.trusted, "allow-commands", false, "trust the file of --config: let it name programs to run, and files to write")
	for _, name := range []string{"config", "allow-commands", "dry-run"} {
		if fs.Lookup(name) != nil {
			note(fs, name, ownLine)
		}
	}
	run := cmd.RunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error { return s.settle(a, cmd.Root()) }
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return s.placed(run(cmd, args)) }
	return s
}

// keys returns what may stand in a file: the flags of all configurable commands, so
// that one file serves them all.
func keys(root *cobra.Command) (names []string) {
	for _, c := range root.Commands() {
		if c.Flags().Lookup("config") == nil {
			continue
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !noted(f, ownLine) && f.Name != "help" {
				names = append(names, f.Name)
			}
		})
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// settle gives flags the values that the environment and the file have for them.
func (s *settings) settle(a *app, root *cobra.Command) error {
	known := keys(root)
	for _, line := range stray(os.Environ(), known) {
		fmt.Fprintf(a.err, "ipcbench: %s\n", doc.Lines(line))
	}
	if s.file == "" {
		s.file = os.Getenv(variable("config"))
	}
	given := s.given()
	for _, name := range known {
		text := os.Getenv(variable(name))
		if f := s.flags.Lookup(name); f == nil || noted(f, ownLine) || text == "" || given[name] {
			continue
		}
		if err := s.flags.Set(name, text); err != nil {
			return usagef("%s: %w", variable(name), err)
		}
		s.origins[name] = origin{"environment", variable(name)}
	}
	if s.file == "" {
		return nil
	}
	entries, err := readConfig(s.file)
	if err != nil {
		return usagef("--config %w", err)
	}
	given = s.given()
	for _, e := range entries {
		f := s.flags.Lookup(e.key)
		switch {
		case f != nil && noted(f, ownLine) && !slices.Contains(known, e.key):
			return usagef("--config %s: %s: stands only on the command line", e.place, e.key)
		case !slices.Contains(known, e.key):
			err, hint := usagef("--config %s: %s: no such setting", e.place, e.key), "ipcbench run --dry-run prints all"
			if n := near.Name(e.key, known); n != "" {
				hint = "did you mean " + n + "?"
			}
			return hinted{err, hint}
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
		s.origins[e.key] = origin{"file", e.place}
	}
	return nil
}

// given returns the flags that have a value, and those that such a flag replaces.
func (s *settings) given() map[string]bool {
	all := map[string]bool{}
	s.flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed {
			all[f.Name] = true
		}
		if f.Changed && f.Value.String() != "false" {
			for _, other := range f.Annotations[insteadOf] {
				all[other] = true
			}
		}
	})
	return all
}

// stray says which variables of the environment look like a flag's and are none.
func stray(environ, known []string) (lines []string) {
	known = slices.Concat([]string{"config"}, worldVariables, known)
	for _, e := range environ {
		name, _, _ := strings.Cut(e, "=")
		flag := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(name, envPrefix), "_", "-"))
		if !strings.HasPrefix(name, envPrefix) || strings.HasPrefix(name, testPrefix) || slices.Contains(known, flag) && variable(flag) == name {
			continue
		}
		line := name + " is set, and no setting has that name"
		if n := near.Name(flag, known); n != "" {
			line += ": did you mean " + variable(n) + "?"
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
			return fmt.Errorf("%s: %w", o.place, err)
		}
	}
	return err
}

// command returns the command line, and behind it what came from elsewhere: files and
// variables change.
func (s *settings) command(args []string) []string {
	all := append([]string{"ipcbench"}, args...) // not by what path it was called
	s.flags.VisitAll(func(f *pflag.Flag) {
		if _, ok := s.origins[f.Name]; ok {
			all = append(all, "--"+f.Name+"="+text(f))
		}
	})
	return all
}

// text returns a flag's value as the command line takes it.
func text(f *pflag.Flag) string {
	text := f.Value.String()
	if _, list := f.Value.(pflag.SliceValue); list {
		text = text[1 : len(text)-1] // pflag puts brackets round lists
	}
	return text
}
