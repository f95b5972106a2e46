package usage_test

import (
	"fmt"
	"log"

	"ipcbench/phase/usage"
)

func ExampleRead() {
	before, err := usage.Read()
	if err != nil {
		log.Fatal(err)
	}
	model := make([]byte, 1<<20) // the work to measure
	after, err := usage.Read()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(after.Since(before).AllocBytes >= int64(len(model)))
	// Output: true
}
