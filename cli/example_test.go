package cli_test

import (
	"fmt"
	"os/exec"
)

// The main function of ipcbench is only cli.Main(all.Transports()...). A program with transports of its own passes them
// instead, and has the same commands.
func Example() {
	out, err := exec.Command("ipcbench", "run", "--transport", "htp").CombinedOutput()
	fmt.Printf("%s%v\n", out, err)
	// Output:
	// ipcbench: --transport: unknown transport "htp": did you mean http?
	// hint: ipcbench list transports
	// exit status 2
}
