package bench

import (
	"encoding/json"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"ipcbench/tensor"
	"ipcbench/trainer"
)

// stockFunc is the name of the worker function that is measured.
const stockFunc = "stock"

// trainFunc is the name of a user's worker function, which is configured by where it is:
// MODULE:FUNCTION.
const trainFunc = "train"

// stockConfig is what the stock worker function gets at the start.
type stockConfig struct {
	Seed    uint64        `json:"seed"`
	TrainMS int           `json:"train_ms"`
	Burn    time.Duration `json:"burn_ns,omitempty"` // CPU time of a canary, besides TrainMS
	Change  tensor.Change `json:"change,omitzero"`
}

// Funcs returns the worker functions that runs use, for the Host of a program
// that calls [Run].
func Funcs() map[string]trainer.Func {
	return map[string]trainer.Func{stockFunc: stock, nestedFunc: nested}
}

// stock makes the stock worker function: it sets the update to a function of
// every byte of the model ([tensor.Train]), and burns CPU time if TrainMS says so.
func stock(config []byte) (trainer.Train, error) {
	var c stockConfig
	if err := json.Unmarshal(config, &c); err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	return func(call *trainer.Job) error { return c.train(call, call.Update, call.Model) }, nil
}

// train does what stock says for a job, whose tensors are those of update and model.
func (c stockConfig) train(call *trainer.Job, update, model *tensor.Package) error {
	if err := tensor.Train(update, model, tensor.Key{Seed: c.Seed, Round: call.Round, Client: call.Client, Change: c.Change}); err != nil {
		return err
	}
	return burn(time.Duration(c.TrainMS)*time.Millisecond+c.Burn, call.Stopped)
}

// burn uses d of CPU time, not of the clock: a core that others use too takes
// longer.
func burn(d time.Duration, stopped func() bool) error {
	if d <= 0 {
		return nil
	}
	runtime.LockOSThread() // the clock is the thread's
	defer runtime.UnlockOSThread()
	start, err := threadTime()
	if err != nil {
		return err
	}
	for now := start; now-start < int64(d) && !stopped(); {
		x := uint64(now)
		for range 1_000 {
			x = x*6364136223846793005 + 1442695040888963407
		}
		runtime.KeepAlive(x)
		if now, err = threadTime(); err != nil {
			return err
		}
	}
	return nil
}

func threadTime() (int64, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		return 0, fmt.Errorf("thread clock: %w", err)
	}
	return ts.Nano(), nil
}
