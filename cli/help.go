package cli

import (
	"embed"
	"strings"
)

// Each file in help has the help of one command, before its flags. Those in questions have
// the questions about what a project claims: behind each line --- is one of them, a
// comment, NAME: QUESTION, and a file of settings that says what to measure.
//
//go:embed help questions
var texts embed.FS

// readText returns one of texts. Tests read all of them, so a missing file is a mistake in
// the program.
func readText(path string) string {
	text, err := texts.ReadFile(path)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// help returns the help of a command.
func help(command string) string { return strings.TrimSpace(readText("help/" + command + ".txt")) }
