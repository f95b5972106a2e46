package receipt_test

import (
	"fmt"
	"log"

	"ipcbench/receipt"
	"ipcbench/tensor"
)

// A result with tensors is detached, its tensors are written into a package's memory, and the other end attaches it.
func ExampleDetach() {
	type Result struct {
		Loss   float64
		Params map[string]*receipt.Tensor
	}
	bias, err := receipt.NewTensor(tensor.F32, 2)
	if err != nil {
		log.Fatal(err)
	}
	copy(tensor.Slice[float32](bias.Data), []float32{0.5, -1})

	d, err := receipt.Detach(Result{0.25, map[string]*receipt.Tensor{"bias": bias}}, receipt.DefaultDepth)
	if err != nil {
		log.Fatal(err)
	}
	layout, err := tensor.NewLayout(d.Specs)
	if err != nil {
		log.Fatal(err)
	}
	p := tensor.Alloc(layout) // or a package that a transport lends
	if err := d.CopyTo(p); err != nil {
		log.Fatal(err)
	}

	var r Result
	if err := receipt.Attach(p.Receipt, p, &r); err != nil {
		log.Fatal(err)
	}
	fmt.Println(d.Specs[0].Name, d.Specs[0].DType, d.Specs[0].Shape)
	fmt.Println(r.Loss, tensor.Slice[float32](r.Params["bias"].Data))
	// Output:
	// Params.bias f32 [2]
	// 0.25 [0.5 -1]
}
