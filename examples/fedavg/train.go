package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"

	"ipcbench/receipt"
	"ipcbench/tensor"
	"ipcbench/trainer"
)

// The model is a linear regression.

const features = 8

func newModel() map[string]*receipt.Tensor {
	return map[string]*receipt.Tensor{"weight": newTensor(features), "bias": newTensor()}
}

func newTensor(shape ...int) *receipt.Tensor {
	t, err := receipt.NewTensor(tensor.F32, shape...)
	if err != nil {
		panic(err) // the shapes are constants
	}
	return t
}

func floats(t *receipt.Tensor) []float32 { return tensor.Slice[float32](t.Data) }

// average sets the model to the mean of the clients' models, weighted by their
// samples. It returns the mean of their losses.
func average(model map[string]*receipt.Tensor, results []*Result) (loss float64, err error) {
	samples := 0
	for _, r := range results { // in the clients' order, not in the order of arrival
		var u Update
		if err := r.Into(&u); err != nil {
			return 0, err
		}
		samples += u.Samples
		share := float64(u.Samples) / float64(samples)
		loss += (u.Loss - loss) * share
		for name, t := range u.Model { // views of the transport's memory, until Release
			mean := floats(model[name])
			for i, x := range floats(t) {
				mean[i] += (x - mean[i]) * float32(share)
			}
		}
		r.Release()
	}
	return loss, nil
}

// train is the worker function: it trains one client in one round.
func train(j *trainer.ValueJob[Global, Update]) error {
	var c Config
	if err := json.Unmarshal(j.Config, &c); err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	x, y := data(j.Client, c.Samples)

	// The update's tensors are memory prepared for this client. The payload's tensors
	// are read-only, and all workers may share them.
	weight, bias := floats(j.Update.Model["weight"]), floats(j.Update.Model["bias"])
	copy(weight, floats(j.Payload.Model["weight"]))
	copy(bias, floats(j.Payload.Model["bias"]))
	j.Update.Samples, j.Update.Loss = c.Samples, descend(weight, bias, x, y, 0)
	for j.Update.Epochs = 0; j.Update.Epochs < c.Epochs && !j.Stopped(); j.Update.Epochs++ {
		descend(weight, bias, x, y, c.Rate)
	}
	return nil
}

// descend does one step of gradient descent on the mean squared error, and returns
// the error before the step.
func descend(weight, bias []float32, x [][features]float32, y []float32, rate float32) (loss float64) {
	var gradient [features + 1]float32
	for n := range x {
		diff := bias[0] - y[n]
		for i, w := range weight {
			diff += w * x[n][i]
		}
		for i := range weight {
			gradient[i] += diff * x[n][i]
		}
		gradient[features] += diff
		loss += float64(diff*diff) / float64(len(x))
	}
	step := rate / float32(len(x))
	for i := range weight {
		weight[i] -= step * gradient[i]
	}
	bias[0] -= step * gradient[features]
	return loss
}

// data returns a client's samples: a noisy linear function, the same for all clients,
// at points around the client's own center.
func data(client, samples int) (x [][features]float32, y []float32) {
	r := rand.New(rand.NewPCG(uint64(client), 1))
	center := float32(r.NormFloat64() / 2)
	for range samples {
		var point [features]float32
		value := float32(3 + r.NormFloat64()/100)
		for i := range point {
			point[i] = center + float32(r.NormFloat64())
			value += float32(i-2) * point[i]
		}
		x, y = append(x, point), append(y, value)
	}
	return x, y
}
