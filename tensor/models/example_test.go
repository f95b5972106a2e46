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
	// unknown model "histolgy" (did you mean histology?): want one of cnn, histology, resnet18, resnet50, resnet101, gpt2, gpt2-large, lora, vlm-batch, uniform:SIZE/COUNT or PATH.safetensors
}
