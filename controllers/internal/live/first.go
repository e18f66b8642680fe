package live

import (
	"context"
	"errors"
)

// first asks all endpoints at the same time, and returns the first answer that is definite: ok
// is true. Such an answer counts whatever the others say. So a shard that is away, or never
// answers, does not delay the answers about workspaces of another shard. Without a definite
// answer, first returns the errors.
func first[T any](ctx context.Context, endpoints []string, ask func(ctx context.Context, endpoint string) (T, bool, error)) (T, bool, error) {
	type said struct {
		answer T
		ok     bool
		err    error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	all := make(chan said, len(endpoints)) // what comes too late is dropped
	for _, endpoint := range endpoints {
		go func() {
			answer, ok, err := ask(ctx, endpoint)
			all <- said{answer, ok, err}
		}()
	}
	var errs []error
	for range endpoints {
		s := <-all
		if s.ok {
			return s.answer, true, nil
		}
		errs = append(errs, s.err)
	}
	var none T
	return none, false, errors.Join(errs...)
}
