package codec_test

import (
	"bytes"
	"fmt"
	"log"

	"ipcbench/codec"
	"ipcbench/tensor"
)

// Of a tensor in which one element has changed, only that element travels.
func ExampleCoder() {
	pipeline, err := codec.Parse("sparse")
	if err != nil {
		log.Fatal(err)
	}
	spec := tensor.Spec{Name: "weight", DType: tensor.F32, Shape: []int{1000}}
	base, current := make([]byte, 4000), make([]byte, 4000)
	tensor.Slice[float32](current)[7] = 0.5

	packed := make([]byte, len(current))
	coder := pipeline.NewCoder()
	mode, n, err := coder.Pack(packed, base, current, spec)
	if err != nil {
		log.Fatal(err)
	}
	restored := make([]byte, len(current))
	err = coder.Unpack(mode, restored, base, packed[:n], spec)
	fmt.Println(mode, n, bytes.Equal(restored, current), err)
	// Output: coded 8 true <nil>
}
