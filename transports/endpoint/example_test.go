package endpoint_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"ipcbench/tensor/models"
	"ipcbench/transports/endpoint"
)

func must[T any](x T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return x
}

// A worker joins its lane if it shows the session's secret. Anything else that connects is refused.
func Example() {
	dir := must(os.MkdirTemp("", ""))
	defer os.RemoveAll(dir)
	ctx, model := context.Background(), must(models.Parse("cnn")).Layout
	session := endpoint.Session{Down: model, Up: model, Lanes: 1}
	server := endpoint.New(dir)
	server.Patience = time.Minute
	lanes := must(server.ListenLanes(ctx, "unix", session))

	_, err := endpoint.At(server.Addr(), "guessed").DialLane(ctx, 0, session)
	fmt.Println("refused:", err != nil)

	worker := must(endpoint.At(server.Addr(), server.Secret()).DialLane(ctx, 0, session))
	lane := must(lanes.Conn(ctx, 0))
	must(lane.Write([]byte("job")))
	job := make([]byte, 3)
	must(worker.Read(job))
	fmt.Println(string(job), errors.Join(worker.Close(), lane.Close(), lanes.Dismiss()))
	// Output:
	// refused: true
	// job <nil>
}
