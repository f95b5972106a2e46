package pickle_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/tensor"
	"ipcbench/transports"
)

// alone returns a server without workers, and how to dial it.
func alone(t *testing.T, text string) (s *transports.Server, dial func(ctx context.Context) (*transports.Worker, error)) {
	t.Helper()
	l, err := tensor.NewLayout([]tensor.Spec{{Name: "w", DType: tensor.F32, Shape: []int{10}}})
	check.Must(t, err)
	v, e, o := variant(t, text), endpoint(t), one(l)
	s, err = transports.Listen(t.Context(), v, e, o)
	check.Must(t, err)
	t.Cleanup(func() { check.Must(t, s.Shutdown(context.Background())) })
	return s, func(ctx context.Context) (*transports.Worker, error) { return transports.Dial(ctx, v, e, 0, o) }
}

// TestShutdownAfterHello: a worker that was admitted learns of the end, however
// soon it comes.
func TestShutdownAfterHello(t *testing.T) {
	for range 300 {
		s, dial := alone(t, "pickle")
		w, err := dial(t.Context())
		check.Must(t, err)
		ended := make(chan error, 1)
		go func() {
			_, _, err := w.Receive(t.Context())
			ended <- errors.Join(err, w.Close())
		}()
		check.Must(t, s.Shutdown(t.Context()))
		if err := <-ended; !errors.Is(err, io.EOF) {
			t.Fatalf("got error %v, want io.EOF", err)
		}
	}
}
