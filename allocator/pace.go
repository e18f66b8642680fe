package allocator

import (
	"context"
	"fmt"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

const (
	mostAttempts = 12
	firstPause   = time.Millisecond
)

// pace counts and delays the attempts of an operation that conflicts with others. The zero value has counted none.
type pace int

// wait waits before the next attempt. After the last attempt it returns ErrBusy.
func (p *pace) wait(ctx context.Context) error {
	if *p++; *p >= mostAttempts {
		return fmt.Errorf("%w: others change the blocks there all the time", ledger.ErrBusy)
	}
	select {
	case <-time.After(firstPause << *p):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
