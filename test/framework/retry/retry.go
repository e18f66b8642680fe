// Package retry retries requests to processes that tests stop or kill, and that come back.
package retry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// once is how long one try may take: the other end of a connection may be gone, so that the try hangs.
	once = 20 * time.Second
	// between is the pause between two tries.
	between = 100 * time.Millisecond
)

// Do calls the function do until it succeeds, for as long as patience lasts. The error says what was not done, and
// how the last complete try ended.
func Do(ctx context.Context, patience time.Duration, what string, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var seen error
	for {
		try, cancelTry := context.WithTimeout(ctx, once)
		err := do(try)
		cancelTry()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%s: not in %s: %w", what, patience, cmp.Or(seen, err))
		}
		seen = err
		Pause(ctx, between)
	}
}

// Answered sends a request again while it has no answer, for as long as patience lasts, and returns the answer. It
// calls the function again with each error that is not an answer.
func Answered(ctx context.Context, patience time.Duration, again func(error), send func(context.Context) error) (err error) {
	never := Do(ctx, patience, "an answer", func(ctx context.Context) error {
		if err = send(ctx); Unanswered(err) {
			again(err)
			return err
		}
		return nil
	})
	return cmp.Or(never, err)
}

// Unanswered reports whether a request got no answer, or an answer which says that nobody can decide now, as on a
// busy machine. Every refusal is an answer, and so is 507, which means that the addresses are used up.
func Unanswered(err error) bool {
	answer, ok := errors.AsType[*apierrors.StatusError](err)
	return err != nil && (!ok || answer.ErrStatus.Code >= http.StatusInternalServerError && answer.ErrStatus.Code != http.StatusInsufficientStorage)
}

// Pause lets time pass, and reports whether ctx lasts.
func Pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
