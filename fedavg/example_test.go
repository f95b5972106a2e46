package fedavg_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"

	"ipcbench/fedavg"
	"ipcbench/receipt"
	"ipcbench/tensor"
	"ipcbench/trainer"
	"ipcbench/transports"
	"ipcbench/transports/all"
)

// Global is the payload that every client gets.
type Global struct {
	Model map[string]*receipt.Tensor
}

// Config is the configuration of one client.
type Config struct {
	Samples, Epochs int
	Rate            float32
}

// Update is a client's update.
type Update struct {
	Samples int
	Loss    float64 // of the global model, on the client's data
	Model   map[string]*receipt.Tensor
}

// Four clients train a linear regression on their own data, in two worker processes with shared memory. The server
// averages their models. Example prints the loss at the beginning of each round.
func Example() {
	exampleHost().MaybeWorker() // first in main; it does not return in worker processes, which also run this program
	variant, err := transports.Parse("shm-slab", all.Transports())
	if err != nil {
		log.Fatal(err)
	}
	t := newRegression()
	t.Variant, t.Launcher, t.Workers = variant, trainer.NewProcesses(), 2
	losses, err := fit(context.Background(), t, 4, 3)
	if err = errors.Join(err, t.Close()); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%.2f\n", losses)
	// Output:
	// [11.51 5.04 2.32]
}

// exampleHost returns the transports and the worker functions of worker processes.
func exampleHost() trainer.Host {
	return trainer.Host{
		Transports: all.Transports(),
		Funcs:      map[string]trainer.Func{"regression": fedavg.Worker(train)},
	}
}

// newRegression returns a trainer without a transport.
func newRegression() *fedavg.Trainer[Config, Global, Update] {
	return &fedavg.Trainer[Config, Global, Update]{
		Update: &Update{Model: newModel()}, // memory is prepared for its tensors
		Config: func(client int) (Config, error) {
			return Config{Samples: 100 * (1 + client%3), Epochs: 5, Rate: 0.1}, nil
		},
		Func: "regression",
	}
}

func newModel() map[string]*receipt.Tensor {
	return map[string]*receipt.Tensor{"weight": newTensor(), "bias": newTensor()}
}

func newTensor(shape ...int) *receipt.Tensor {
	t, err := receipt.NewTensor(tensor.F32, shape...)
	if err != nil {
		panic(err) // the shapes are constants
	}
	return t
}

func floats(t *receipt.Tensor) []float32 { return tensor.Slice[float32](t.Data) }

// fit trains a new model, and returns its loss at the beginning of each round.
func fit(
	ctx context.Context, t *fedavg.Trainer[Config, Global, Update], clients, rounds int,
) (losses []float64, err error) {
	var ids []int
	for id := range clients {
		ids = append(ids, id)
	}
	global := Global{Model: newModel()}
	for range rounds {
		if err := t.Process(ctx, global, ids); err != nil {
			return nil, err
		}
		losses = append(losses, average(global.Model, t.Results()))
	}
	return losses, nil
}

// average sets the model to the mean of the clients' models, weighted by their samples. It returns the mean of their
// losses.
func average(model map[string]*receipt.Tensor, results []*fedavg.Result[Update]) (loss float64) {
	samples := 0
	for _, r := range results { // in the clients' order, not in the order of arrival
		samples += r.Update.Samples
		share := float64(r.Update.Samples) / float64(samples)
		loss += (r.Update.Loss - loss) * share
		for name, t := range r.Update.Model { // views of the transport's memory, until Release
			mean := floats(model[name])
			for i, x := range floats(t) {
				mean[i] += (x - mean[i]) * float32(share)
			}
		}
		r.Release()
	}
	return loss
}

// train is the worker function: it trains one client in one round, by gradient descent on the mean squared error. The
// client's samples are on a noisy line, the same for all clients, around a center of the client's own.
func train(j *fedavg.Job[Config, Global, Update]) error {
	// The payload's tensors are read-only, because all clients may share them.
	weight, bias := floats(j.Payload.Model["weight"])[0], floats(j.Payload.Model["bias"])[0]
	for epoch := 0; epoch < j.Config.Epochs && !j.Stopped(); epoch++ {
		random := rand.New(rand.NewPCG(uint64(j.Client), 1))
		center := random.NormFloat64()
		var loss float64
		var slope, height float32 // of the error
		for range j.Config.Samples {
			x := float32(center + random.NormFloat64())
			diff := weight*x + bias - (2*x + float32(3+random.NormFloat64()/100))
			slope += diff * x / float32(j.Config.Samples)
			height += diff / float32(j.Config.Samples)
			loss += float64(diff*diff) / float64(j.Config.Samples)
		}
		if epoch == 0 {
			j.Update.Loss = loss
		}
		weight -= j.Config.Rate * slope
		bias -= j.Config.Rate * height
	}
	j.Update.Samples = j.Config.Samples
	floats(j.Update.Model["weight"])[0], floats(j.Update.Model["bias"])[0] = weight, bias
	return nil
}
