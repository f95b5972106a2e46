package transports_test

import (
	"fmt"

	"ipcbench/transports"
	"ipcbench/transports/all"
)

// A variant's text has only the settings that differ from their defaults.
func ExampleParse() {
	v, err := transports.Parse("http:tls=on:network=tcp:codec=xor", all.Transports())
	fmt.Println(v, err)
	fmt.Println(v.Codec(), v.Settings.On("tls"), v.Traits().Calls)

	_, err = transports.Parse("htp", all.Transports())
	fmt.Println(err)
	// Output:
	// http:network=tcp:tls=on:codec=xor+zstd <nil>
	// xor+zstd true true
	// unknown transport "htp": did you mean http?
}
