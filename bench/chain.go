package bench

import (
	"context"
	"time"

	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/tensor/models"
)

// A chain is the reference of all cells with one model and number of clients:
// the hash of the model after every round, made by the same arithmetic that
// server and workers do, called directly. What it takes is the floor called
// work.
type chain struct {
	model   *models.Model
	clients int
	seed    uint64
	hashes  []uint64
	work    [][]float64 // seconds a round, by block
}

// workRounds are measured in every block after the one that made the chain.
const workRounds = 5

// extend makes the chain as long as the rounds that the fastest session can do
// within lim, with lanes workers at once, but between least and most rounds. It
// measures the work as it goes. The memory is given back at the end.
func (c *chain) extend(ctx context.Context, lim limits, lanes, least, most int) error {
	var spent time.Duration
	return c.run(ctx, func(round int, took time.Duration) bool {
		spent += took
		return round+1 < least || round+1 < most && spent < time.Duration(lanes)*(lim.warm+lim.time)
	})
}

// measure takes some rounds of work for the floor.
func (c *chain) measure(ctx context.Context) error {
	return c.run(ctx, func(round int, _ time.Duration) bool { return round < workRounds })
}

// run does rounds from the first one for as long as more says so.
func (c *chain) run(ctx context.Context, more func(round int, took time.Duration) bool) error {
	l := c.model.Layout
	average := tensor.NewAverage(l)
	model, next, update := tensor.Alloc(l), tensor.Alloc(l), tensor.Alloc(l)
	if err := c.model.Init(model, c.seed); err != nil {
		return err
	}
	roster := roster(c.clients)
	var samples []float64
	for round := 0; ctx.Err() == nil; round++ {
		start := phase.Now()
		if err := average.Begin(next, roster.total); err != nil {
			return err
		}
		for _, client := range roster.clients {
			if ctx.Err() != nil { // a round of many clients takes long
				return ctx.Err()
			}
			if err := tensor.Train(update, model, tensor.Key{Seed: c.seed, Round: round, Client: client.ID}); err != nil {
				return err
			}
			if err := average.Fold(update, client.Weight); err != nil {
				return err
			}
		}
		if err := average.Finish(); err != nil {
			return err
		}
		took := time.Duration(phase.Now() - start)
		if round > 0 && len(samples) < mostRounds { // the first one touches its memory
			samples = append(samples, took.Seconds())
		}
		if round == len(c.hashes) {
			c.hashes = append(c.hashes, next.Hash())
		}
		model, next = next, model
		if !more(round, took) {
			break
		}
	}
	if len(samples) > 0 {
		c.work = append(c.work, samples)
	}
	return ctx.Err()
}
