package workspaces

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// patience is how long a fact may take to come true. kcp answers most in seconds;
	// a machine busy with other things may take a minute.
	patience = 3 * time.Minute
	interval = 250 * time.Millisecond

	// settling is how long kcp may refuse what it is about to allow: it caches
	// decisions for some seconds, and replicates grants and exports between shards.
	settling = 30 * time.Second
)

// await calls check until it returns nil. An error of check says what is missing. If the wait ends before, its error
// contains the last error of check. A refusal that no wait can mend ends the wait at once.
func await(ctx context.Context, what string, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not so after %s", patience))
	defer cancel()

	var missing error
	var since time.Time // when this was first missing
	err := wait.PollUntilContextCancel(ctx, interval, true, func(ctx context.Context) (bool, error) {
		// A call cut short by the end of the wait says less than the one before it.
		if seen := check(ctx); ctx.Err() == nil || missing == nil {
			if missing == nil || seen == nil || missing.Error() != seen.Error() {
				since = time.Now()
			}
			missing = seen
		}
		if final(missing, time.Since(since) > settling) {
			return false, missing
		}
		return missing == nil, nil
	})
	switch {
	case err == nil:
		return nil
	case ctx.Err() == nil:
		return fmt.Errorf("wait for %s: %w", what, err)
	default:
		return fmt.Errorf("wait for %s: %w; last seen: %w", what, context.Cause(ctx), missing)
	}
}

// final reports whether waiting longer cannot make err go away.
func final(err error, settled bool) bool {
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsAlreadyExists(err) ||
		errors.Is(err, ErrConflict) || errors.Is(err, ErrNoExport) {
		return settled
	}
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)
}
