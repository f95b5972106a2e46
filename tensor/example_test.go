package tensor_test

import (
	"errors"
	"fmt"
	"log"

	"ipcbench/tensor"
)

// Two clients send updates of one layout, and the next model is their weighted average.
func ExampleAverage() {
	layout, err := tensor.NewLayout([]tensor.Spec{{Name: "bias", DType: tensor.F32, Shape: []int{2}}})
	if err != nil {
		log.Fatal(err)
	}
	first, second, next := tensor.Alloc(layout), tensor.Alloc(layout), tensor.Alloc(layout)
	copy(tensor.Slice[float32](first.View(0)), []float32{1, 2})
	copy(tensor.Slice[float32](second.View(0)), []float32{5, -2})

	average := tensor.NewAverage(layout)
	err = errors.Join(average.Begin(next, 1+3), average.Fold(first, 1), average.Fold(second, 3), average.Finish())
	fmt.Println(tensor.Slice[float32](next.View(0)), err)
	// Output: [4 -1] <nil>
}
