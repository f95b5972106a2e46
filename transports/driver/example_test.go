package driver_test

import (
	"fmt"
	"log"

	"ipcbench/tensor"
	"ipcbench/tensor/models"
	"ipcbench/transports/driver"
)

// A driver that cannot share memory lends an update like this when Collect is called: the package is counted until the
// caller releases it.
func ExampleNewBank() {
	model, err := models.Parse("cnn")
	if err != nil {
		log.Fatal(err)
	}
	var out tensor.Ledger // from Options.Out
	bank := driver.NewBank(driver.Options{Up: model.Layout, Depth: 1, Out: &out})
	update, err := bank.Lend()
	if err != nil {
		log.Fatal(err)
	}
	tensor.Fill(update, 1) // received from a socket
	fmt.Println(driver.Delivered{Body: driver.All(update)}, out.Out())

	_, err = bank.Lend()
	fmt.Println(err)
	update.Release()
	fmt.Println(out.Out(), bank.Close())
	// Output:
	// {{10 248024} {0 0} {0 0}} 1
	// all 1 updates of the lane are out
	// 0 <nil>
}
