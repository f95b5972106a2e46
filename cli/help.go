package cli

import (
	"embed"
	"strings"
)

// Each file has the help of one command, before its flags.
//
//go:embed help
var helpFiles embed.FS

// help returns the help of a command. A test prints all of them, so a missing file is a
// mistake in the program.
func help(command string) string {
	text, err := helpFiles.ReadFile("help/" + command + ".txt")
	if err != nil {
		panic(err)
	}
	return strings.TrimSpace(string(text))
}
