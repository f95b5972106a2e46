package models_test

import (
	"fmt"
	"log"

	"ipcbench/tensor"
	"ipcbench/tensor/models"
)

func ExampleParse() {
	m, err := models.Parse("histology")
	if err != nil {
		log.Fatal(err)
	}
	p := tensor.Alloc(m.Layout)
	if err := m.Init(p, 1); err != nil {
		log.Fatal(err)
	}
	first := m.Layout.Spec(0)
	fmt.Println(m.Layout.Len(), m.Layout.Payload(), first.Name, first.DType, first.Shape)

	_, err = models.Parse("histolgy")
	fmt.Println(err)
	// Output:
	// 20 66608288 conv1.weight f32 [16 3 3 3]
	// unknown model "histolgy": did you mean histology?
}
