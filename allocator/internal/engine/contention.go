package engine

import (
	"context"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
)

// Writers of one space are several Allocators. Without more, the one that is nearer to
// etcd wins every time: it learns of its own transaction first, and the others plan
// theirs on a head that is no longer. So a writer that has lost asks for a turn, in the
// else branch of the transaction that it loses next. The others see that by their watch
// and wait, until somebody else has written or the time is over that a transaction of
// the loser takes. It costs nothing where there is one writer.

// maxTurn bounds how long a writer waits for another.
const maxTurn = 100 * time.Millisecond

// turn is another writer's wish to be next. The zero value is none.
type turn struct {
	wait  time.Duration
	taken chan struct{} // closed when another writer has changed the space; nil: there is no wish
}

// ask notes the wish, unless there is one already.
func (t *turn) ask(wish store.Turn) {
	if t.taken == nil {
		*t = turn{wait: min(2*wish.Took, maxTurn), taken: make(chan struct{})}
	}
}

// take ends the wish: another writer has changed the space.
func (t *turn) take() {
	if t.taken != nil {
		close(t.taken)
		*t = turn{}
	}
}

// yield waits until the turn is taken or over.
func (t turn) yield(ctx context.Context) {
	select {
	case <-t.taken:
	case <-time.After(t.wait):
	case <-ctx.Done():
	}
}
