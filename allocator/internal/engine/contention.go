package engine

import (
	"context"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
)

// Several Allocators may write one space. The one that is nearest to etcd would win every
// time: it learns of its own transaction first, and the others plan theirs on an old head.
// So a writer that has lost asks for a turn, in the else branch of its next transaction. The
// other writers see that by their watch, and wait. They go on when another writer has
// changed the space, or after twice the time that the loser's last transaction took. With
// one writer this costs nothing.

// maxTurn bounds how long a writer waits for another.
const maxTurn = 100 * time.Millisecond

// turn is the request of another writer to go first. The zero value is none.
type turn struct {
	wait  time.Duration
	taken chan struct{} // closed when another writer has changed the space; nil: there is no request
}

// ask notes a request, unless there is one already.
func (t *turn) ask(wish store.Turn) {
	if t.taken == nil {
		*t = turn{wait: min(2*wish.Took, maxTurn), taken: make(chan struct{})}
	}
}

// take ends the request: another writer has changed the space.
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
