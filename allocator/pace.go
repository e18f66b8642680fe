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

// pace paces the attempts of an op before which another change came. The zero value has seen none.
type pace int

// wait waits before the next attempt. After the last one it returns ErrBusy.
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
