package cli

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"ipcbench/internal/skip"
	"ipcbench/internal/waiting"
)

// TestCompleted: every flag that takes a text, and every argument, has what a shell
// offers for it. A flag whose help lists values, a|b, offers these.
func TestCompleted(t *testing.T) {
	var texts, listed int
	everyCommand(func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			of, ok := c.GetFlagCompletionFunc(f.Name)
			if isText(f) {
				texts++
				if !ok {
					t.Errorf("%s --%s takes a text and has no completion: list its values in its help as a|b|c, or give it a line in cli/complete.go", c.CommandPath(), f.Name)
				}
			}
			if want := alternatives.FindString(f.Usage); ok && want != "" {
				listed++
				got, _ := of(c, nil, "")
				if strings.Join(got, "|") != want {
					t.Errorf("%s --%s completes %q, and its help says %s", c.CommandPath(), f.Name, got, want)
				}
			}
		})
		if !c.HasSubCommands() && regexp.MustCompile("FILE|RESULT|DIR|NEW").MatchString(c.Use) {
			if _, d := c.ValidArgsFunction(c, nil, ""); d&(cobra.ShellCompDirectiveFilterFileExt|cobra.ShellCompDirectiveFilterDirs) == 0 {
				t.Errorf("%s takes files and completes none", c.Use)
			}
		}
	})
	if texts < 15 || listed < 5 {
		t.Errorf("only %d flags were looked at, %d with values", texts, listed)
	}
}

// tabs are lines of which a tab completes the last word.
var tabs = []struct{ typed, want string }{
	{"run --transport shm-s", "shm-slab"},
	{"run --transport shm-slab:wa", "shm-slab:wait="},
	{"run --transport shm-slab:wait=s", "shm-slab:wait=spin"},
	{"run --transport http,shm-slab:copy=on:wait=s", "http,shm-slab:copy=on:wait=spin"},
	{"run --transport=http,shm-slab:wait=s", "--transport=http,shm-slab:wait=spin"},
	{"run --transport -sto", "-storage"},
	{"run --transport all,-sto", "all,-storage"},
	{"run --transport grpc-stream:chunk=", "grpc-stream:chunk=2MiB"},
	{"run --transport storage:dir=/et", "storage:dir=/etc/"},
	{"run --model histo", "histology"},
	{"run --model cnn,uniform:1M", "cnn,uniform:1MiB/20"},
	{"run --model cnn,./od", "cnn,./odd.safetensors"},
	{"run --model like:gpt2-", "like:gpt2-large:1637420KiB/219"},
	{"run --up lora:1", "lora:16"},
	{"run --view phases,cel", "phases,cells"},
	{"run --profile cpu,al", "cpu,allocs"},
	{"run --format ben", "benchfmt"},
	{"run --verify sam", "sample"},
	{"run --config te", "team.yaml"},
	{"run --config=te", "--config=team.yaml"},
	{"run --quick --thor", "--thorough"},
	{"report resu", "result.json"},
	{"report result.json zi", "zipped.json.gz"},
	{"report wi", "with space.json"},
	{`report with\ sp`, "with space.json"},
	{`report "with sp`, "with space.json"},
	{`run --config="te`, "--config=team.yaml"},
	{`run --model ./my\ m`, "./my model.safetensors"},
	{"report --update fol", "folder/"},
	{"report --format md resu", "result.json"},
	{"compare --metric over", "overhead"},
	{"compare --format cs", "csv"},
	{"profile ti", "timeline"},
	{"profile timeline resu", "result.json"},
	{"pprof -top zi", "zipped.json.gz"},
	{"list tra", "transports"},
	{"help repo", "report"},
	{"doctor --model histo", "histology"},
	{"completion fi", "fish"},
}

// lastWord is what a tab completes.
var lastWord = regexp.MustCompile(`(\\.|".*|[^ ])+$`)

// shellFolder is where the files are that tabs name.
func shellFolder(t *testing.T) string {
	dir := t.TempDir()
	for _, name := range []string{"odd.safetensors", "odd.txt", "team.yaml", "team.txt", "result.json", "result.txt", "zipped.json.gz", "with space.json", "my model.safetensors", "folder/x", "fol.txt"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestTab: in bash, alone and with the package bash-completion, and in zsh, a tab
// makes what it should of a line, whatever colons, commas and equals signs are in it.
func TestTab(t *testing.T) {
	for _, shell := range []struct{ name, needs, start, setUp string }{
		{"bash", "bash", "bash --norc --noprofile -i", "source <(ipcbench completion bash)"},
		{"bash-completion", "/usr/share/bash-completion/bash_completion", "bash --norc --noprofile -i",
			"mkdir -p x/completions; ipcbench completion bash >x/completions/ipcbench; BASH_COMPLETION_USER_DIR=$PWD/x; source /usr/share/bash-completion/bash_completion"},
		{"bash without : in COMP_WORDBREAKS", "bash", "bash --norc --noprofile -i", "COMP_WORDBREAKS=${COMP_WORDBREAKS//:}; source <(ipcbench completion bash)"},
		{"zsh", "zsh", "zsh -f -i", "autoload -Uz compinit; compinit -u -D; bindkey -e; source <(ipcbench completion zsh)"},
		{"zsh with fpath", "zsh", "zsh -f -i", "mkdir x; ipcbench completion zsh >x/_ipcbench; fpath=($PWD/x $fpath); autoload -Uz compinit; compinit -u -D; bindkey -e"},
	} {
		t.Run(shell.name, func(t *testing.T) {
			if shell.name != "bash" {
				skip.Long(t)
			}
			if _, err := exec.LookPath(shell.needs); err != nil {
				if _, err := os.Stat(shell.needs); err != nil {
					skip.Missing(t, "%s", shell.name)
				}
			}
			master, slave := terminal(t)
			if err := unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 50, Col: 500}); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(waiting.Context(t))
			defer cancel()
			args := strings.Fields(shell.start)
			cmd := exec.CommandContext(ctx, args[0], args[1:]...)
			cmd.Dir = shellFolder(t)
			cmd.Env = append(os.Environ(), "TERM=vt100", "LC_ALL=C.UTF-8", "HISTFILE=", "ZDOTDIR="+cmd.Dir)
			cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			slave.Close()
			defer func() {
				cancel()
				_ = cmd.Wait() // it was killed
			}()
			shown := make(chan string)
			go func() {
				defer close(shown)
				text := make([]byte, 1<<16)
				for {
					n, err := master.Read(text)
					if err != nil {
						return
					}
					select {
					case shown <- string(text[:n]):
					case <-ctx.Done():
						return
					}
				}
			}()
			// The words of a line are shown between the signs that no line has.
			fmt.Fprintln(master, shell.setUp+`; show() { printf '{%s}' "$@" ready; echo; }; show`)
			words := regexp.MustCompile(`\{[^\r\n]*ready\}`)
			var text string
			await := func() string {
				for {
					if m := words.FindString(text); m != "" {
						text = ""
						return m
					}
					more := waiting.Receive(t, "words that the shell shows", shown)
					if more == "" {
						t.Fatalf("the shell has ended:\n%s", text)
					}
					text += more
				}
			}
			await()
			for _, tab := range tabs {
				fmt.Fprintf(master, "ipcbench %s\t\x01show \n", tab.typed)
				before := tab.typed[:lastWord.FindStringIndex(tab.typed)[0]]
				want := fmt.Sprintf("{ipcbench}{%s}{ready}", strings.Join(append(strings.Fields(before), tab.want), "}{"))
				if got := await(); strings.ReplaceAll(got, "/}", "}") != strings.ReplaceAll(want, "/}", "}") { // zsh takes a slash back
					t.Errorf("%s: got %s, want %s", tab.typed, got, want)
				}
			}
		})
	}
}

// TestFish: the same in fish, which can be asked.
func TestFish(t *testing.T) {
	if _, err := exec.LookPath("fish"); err != nil {
		skip.Missing(t, "fish")
	}
	tabs := append(slices.Clone(tabs), struct{ typed, want string }{"report ~/resu", "~/result.json"})
	const end = "-- end --"
	script := "ipcbench completion fish | source\n"
	for _, tab := range tabs {
		script += fmt.Sprintf("complete -C 'ipcbench %s'; echo %s\n", tab.typed, strings.ReplaceAll(end, " ", `\ `))
	}
	cmd := exec.Command("fish", "--no-config", "-c", script)
	cmd.Dir = shellFolder(t)
	cmd.Env = append(os.Environ(), "HOME="+cmd.Dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	all := strings.Split(string(out), end+"\n")
	for i, tab := range tabs {
		var offered []string
		for line := range strings.Lines(all[i]) {
			word, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
			offered = append(offered, word)
		}
		if got := strings.Join(offered, " "); got != tab.want {
			t.Errorf("%s: got %q, want %q", tab.typed, got, tab.want)
		}
	}
}
