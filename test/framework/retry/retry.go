// Package retry retries requests to processes that tests stop or kill, and that come back.
package retry

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

const (
	// once is how long one try may take: a connection may hang whose other end is gone.
	once = 20 * time.Second
	// between is the pause between two tries.
	between = 100 * time.Millisecond
)

// Do tries until it is done, for as long as patience lasts. The error says what was not
// done, and how the last try ended that was not cut short.
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
