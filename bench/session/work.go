package session

import (
	"encoding/json"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"ipcbench/tensor"
	"ipcbench/trainer"
)

// stockFunc is the name of the standard worker function.
const stockFunc = "stock"

// trainFunc is the name of a user's worker function. Its configuration is
// MODULE:FUNCTION.
const trainFunc = "train"

// stockConfig is the configuration of the stock worker function.
type stockConfig struct {
	Seed    uint64        `json:"seed"`
	TrainMS int           `json:"train_ms"`
	Burn    time.Duration `json:"burn_ns,omitempty"` // CPU time in a canary, in addition to TrainMS
	Change  tensor.Change `json:"change,omitzero"`
}

// Funcs returns the worker functions of this package by name, for the trainer.Host of a
// program that calls [Run].
func Funcs() map[string]trainer.Func {
	return map[string]trainer.Func{stockFunc: stock, nestedFunc: nested}
}

// stock returns the stock worker function. It sets the update to a function of every byte
// of the model ([tensor.Train]), and burns the CPU time that the configuration asks for.
func stock(config []byte) (trainer.Train, error) {
	var c stockConfig
	if err := json.Unmarshal(config, &c); err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	return func(call *trainer.Job) error { return c.train(call, call.Update, call.Model) }, nil
}

// train does the work of [stock] for one job. update and model are the job's tensors,
// possibly scattered.
func (c stockConfig) train(call *trainer.Job, update, model *tensor.Package) error {
	key := tensor.Key{Seed: c.Seed, Round: call.Round, Client: call.Client, Change: c.Change}
	if err := tensor.Train(update, model, key); err != nil {
		return err
	}
	return burn(time.Duration(c.TrainMS)*time.Millisecond+c.Burn, call.Stopped)
}

// burn uses d of CPU time, unless stopped earlier. It takes longer on a shared core.
func burn(d time.Duration, stopped func() bool) error {
	if d <= 0 {
		return nil
	}
	runtime.LockOSThread() // threadTime reads the CPU clock of one thread
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
