// Fedavg trains a model on the private data of several clients, over any transport.
// It averages their models, as McMahan et al. (2017) do.
//
//	go run ./examples/fedavg --transport shm-slab --clients 4 --rounds 3
//
// A client is trained in a worker process. It gets the global model and a
// configuration of its own, does some epochs of gradient descent on its own data,
// and sends the model back. The server averages these models.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"os"
	"os/signal"
	"syscall"
	"time"

	"ipcbench/receipt"
	"ipcbench/trainer"
	"ipcbench/transports"
	"ipcbench/transports/all"
	"ipcbench/transports/driver"
)

// Global is the payload that every client gets. Its tensors, at any depth, travel
// over the transport; all other values travel in a receipt.
type Global struct {
	Round int
	Model map[string]*receipt.Tensor
}

// Update is a client's update.
type Update struct {
	Samples, Epochs int
	Loss            float64 // of the global model, on the client's data
	Model           map[string]*receipt.Tensor
}

// Config is the configuration of one client.
type Config struct {
	Samples, Epochs int
	Rate            float32
}

// host returns the transports and the worker functions of worker processes.
func host() trainer.Host {
	return trainer.Host{Transports: all.Transports(), Funcs: map[string]trainer.Func{"train": trainer.Values(train)}}
}

func main() {
	host().MaybeWorker() // does not return in worker processes, which also run this program
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "fedavg:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("fedavg", flag.ExitOnError)
	name := flags.String("transport", "shm-slab", "any `variant` that ipcbench knows, such as grpc-batch or pickle")
	clients := flags.Int("clients", 4, "clients per round")
	workers := flags.Int("workers", 2, "clients that train at the same time")
	rounds := flags.Int("rounds", 3, "rounds to train")
	epochs := flags.Int("epochs", 5, "passes over a client's data per round")
	deadline := flags.Duration("deadline", time.Minute, "time per round, after which clients stop training and send their models")
	_ = flags.Parse(args) // it exits if it fails
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case *clients < 1 || *workers < 1 || *rounds < 1 || *epochs < 1 || *deadline <= 0:
		return errors.New("--clients, --workers, --rounds, --epochs and --deadline must be positive")
	}
	h := host()
	variant, err := transports.Parse(*name, h.Transports)
	if err != nil {
		return err
	}
	launcher := trainer.NewGoroutines(h) // only for inproc
	if variant.Traits().Reach != driver.Process {
		launcher = trainer.NewProcesses()
	}
	progress := func(pending iter.Seq[*Pending]) iter.Seq[*Pending] {
		return func(yield func(*Pending) bool) {
			for p := range pending {
				if !yield(p) { // waits for the client's update
					return
				}
				fmt.Fprintf(out, "client %d is done\n", p.Client)
			}
		}
	}
	config := func(client int) ([]byte, error) {
		return json.Marshal(Config{Samples: 100 * (1 + client%3), Epochs: *epochs, Rate: 0.1})
	}
	ct := &ClientTrainer{
		Update: Update{Model: newModel()}, // an example, from which memory is prepared
		Func:   "train", Config: config, Variant: variant, Launcher: launcher, Workers: *workers, Progress: progress,
	}
	defer func() { err = errors.Join(err, ct.Close()) }()

	global := Global{Model: newModel()}
	var ids []int
	for id := range *clients {
		ids = append(ids, id)
	}
	for global.Round = range *rounds {
		late := time.AfterFunc(*deadline, func() { _ = ct.Stop() }) // if Stop fails, so does Process
		err := ct.Process(ctx, global, ids)
		late.Stop()
		if err != nil {
			return err
		}
		loss, err := average(global.Model, ct.Results())
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "round %d began with a loss of %.6f\n", global.Round, loss)
	}
	return nil
}
