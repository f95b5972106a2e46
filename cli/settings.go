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

	"ipcbench/internal/near"
	"ipcbench/report/doc"
)

// settings gives the flags of a command their values: from the command line, else from the
// file of --config, else the default.
type settings struct {
	flags   *pflag.FlagSet
	file    string
	trusted bool              // --allow-commands
	origins map[string]string // FILE:LINE of each flag that the file sets
}

// harmful maps flags to the reason why a settings file may set them only with --allow-
// commands. Replacing a file is harmful because the text could be run by a shell.
var harmful = map[string]string{
	"against": runsProgram, "layouts": runsProgram, "peer": runsProgram, "train": runsProgram, "language": runsProgram,
	"out": "replaces a file", "html": "replaces a file", "profile": "writes files", "insecure-network": "gives up encryption",
}

const runsProgram = "runs a program"

// insteadOf maps a flag to the flag whose value from a file it replaces.
var insteadOf = map[string]string{"thorough": "quick", "quick": "thorough", "time": "rounds", "rounds": "time"}

// Environment variables that have an effect. Only a variable may have the token, because
// all users can read command lines.
const (
	configVariable = "IPCBENCH_CONFIG" // name of a settings file
	tokenVariable  = "IPCBENCH_TOKEN"  // secret that the ranks of a world share
	addrVariable   = "IPCBENCH_ADDR"   // address of rank 0
)

// onLine annotates flags that can be set only on the command line, not in a file.
const onLine = "only on the command line"

func onlyOnLine(fs *pflag.FlagSet, flags ...string) {
	for _, flag := range flags {
		if err := fs.SetAnnotation(flag, onLine, nil); err != nil {
			panic(err) // no such flag
		}
	}
}

// inFiles reports whether a settings file may have f.
func inFiles(f *pflag.Flag) bool {
	_, ok := f.Annotations[onLine]
	return !ok && f.Name != "help"
}

// configurable lets the flags of cmd come from a settings file. It must be called after all
// flags are added.
func (a *app) configurable(cmd *cobra.Command) *settings {
	fs := cmd.Flags()
	s := &settings{flags: fs, origins: map[string]string{}}
	fs.StringVar(&s.file, "config", "", "read flags that are not given from `FILE`, in YAML")
	fs.BoolVar(&s.trusted, "allow-commands", false, "let --config name programs to run and files to write")
	offer(fs, "transport", a.transportWords)
	if err := cmd.MarkFlagFilename("config", "yaml", "yml"); err != nil {
		panic(err) // no such flag
	}
	onlyOnLine(fs, "config", "allow-commands")
	run := cmd.RunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error { return s.settle(a, cmd.Root()) }
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return s.placed(run(cmd, args)) }
	return s
}

// keys returns the valid keys of a settings file: the flags of run, which include those of all
// configurable commands. So one file serves all.
func keys(root *cobra.Command) (names []string) {
	run, _, _ := root.Find([]string{"run"}) // run exists
	run.Flags().VisitAll(func(f *pflag.Flag) {
		if inFiles(f) {
			names = append(names, f.Name)
		}
	})
	return names
}

// settle sets the flags that are not given to the values in the file.
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
		case f != nil && !inFiles(f) && !slices.Contains(known, e.key):
			return usagef("--config %s: %s: can only be set on the command line", e.place, e.key)
		case !slices.Contains(known, e.key):
			return hinted{usagef("--config %s: %s: no such setting", e.place, e.key), cmp.Or(near.Meant("", e.key, known), "ipcbench run --dry-run prints all settings")}
		case f == nil || !inFiles(f): // a key for another command
			continue
		case harmful[e.key] != "" && !s.trusted:
			return hinted{usagef("--config %s: %s: %s, so it needs --allow-commands", e.place, e.key, harmful[e.key]), "if you trust the file, add --allow-commands on the command line"}
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

// given returns the flags that are set, and the flags that these replace.
func (s *settings) given() map[string]bool {
	all := map[string]bool{}
	s.flags.Visit(func(f *pflag.Flag) {
		all[f.Name] = true
		if f.Value.String() != "false" {
			all[insteadOf[f.Name]] = true // "" if there is none: not a flag
		}
	})
	return all
}

// stray returns a warning for each variable IPCBENCH_* without effect. In earlier versions,
// each flag had a variable.
func (s *settings) stray(environ []string) (lines []string) {
	known := []string{configVariable, tokenVariable, addrVariable, "IPCBENCH_RANK", "IPCBENCH_WORLD"}
	for _, e := range environ {
		name, value, _ := strings.Cut(e, "=")
		rest, ours := strings.CutPrefix(name, "IPCBENCH_")
		if !ours || value == "" || strings.HasPrefix(rest, "TEST_") || slices.Contains(known, name) {
			continue
		}
		line := name + " is set but has no effect"
		if flag := strings.ToLower(strings.ReplaceAll(rest, "_", "-")); s.flags.Lookup(flag) != nil {
			line += ": use --" + flag + ", or name a settings file in " + configVariable
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return lines
}

var leadingFlag = regexp.MustCompile(`^--([a-z-]+)`)

// placed prefixes an error about a flag with FILE:LINE if its value is from a file.
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

// command returns the command line for the result, followed by the values from the file,
// because the file may change.
func (s *settings) command(args []string) []string {
	all := append([]string{"ipcbench"}, args...) // without the path of the program
	s.flags.VisitAll(func(f *pflag.Flag) {
		if _, ok := s.origins[f.Name]; ok {
			values := []string{f.Value.String()}
			if list, ok := f.Value.(pflag.SliceValue); ok {
				values = list.GetSlice() // a value may have commas
			}
			for _, value := range values {
				all = append(all, "--"+f.Name+"="+value)
			}
		}
	})
	return all
}
