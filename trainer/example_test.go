package trainer_test

import (
	"context"
	"fmt"
	"log"

	"ipcbench/tensor"
	"ipcbench/trainer"
	"ipcbench/transports"
	"ipcbench/transports/driver"
	"ipcbench/transports/inproc"
)

func must[T any](x T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return x
}

// Three clients train on two workers for two rounds. Each adds its ID (0, 1, 2) to the model. The next model is the
// average with their weights (1, 2, 3).
func ExampleSession() {
	add := func(j *trainer.Job) error {
		tensor.Slice[float32](j.Update.View(0))[0] = tensor.Slice[float32](j.Model.View(0))[0] + float32(j.Client)
		return nil
	}
	host := trainer.Host{
		Transports: []driver.Transport{inproc.New()},
		Funcs:      map[string]trainer.Func{"add": func([]byte) (trainer.Train, error) { return add, nil }},
	}
	ctx, layout := context.Background(), must(tensor.NewLayout([]tensor.Spec{{Name: "bias", DType: tensor.F32, Shape: []int{1}}}))
	s := must(trainer.Open(ctx, trainer.Config{
		Variant: must(transports.Parse("inproc", host.Transports)), Down: layout, Up: layout,
		Workers: 2, Clients: 3, Func: "add", Launcher: trainer.NewGoroutines(host),
	}))
	clients, fold, model := trainer.Roster(3), trainer.NewFold(layout, layout), must(s.Reserve(0))
	clear(model.View(0))
	for round := range 2 {
		trained := must(s.Publish(ctx, round, model))
		model = must(s.Reserve(round))
		if err := s.Fold(ctx, trainer.Round{Number: round, Clients: clients}, fold, model, trained, nil); err != nil {
			log.Fatal(err)
		}
		fmt.Println(tensor.Slice[float32](model.View(0)))
	}
	must(s.Close())
	// Output:
	// [1.3333334]
	// [2.666667]
}
