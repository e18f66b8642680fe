package engine

import (
	"sync/atomic"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// call is one request in the queue.
type call struct {
	Op
	space  *Space
	gone   atomic.Bool   // the caller has its answer, or waits no longer
	done   chan struct{} // closed when the answer is final
	err    error         // the answer; nil: the plan's answer
	traced *traced

	// The writer's own.
	plan     Plan // the last one
	attempts int  // how many transactions it took part in
	again    bool // it was planned before
}

// finish gives the caller its answer: err, or the plan's answer if err is nil. A caller that has an answer already
// keeps it.
func (c *call) finish(err error) {
	if c.gone.CompareAndSwap(false, true) {
		c.err = err
		close(c.done)
	}
}

// result returns the answer, once the call is finished.
func (c *call) result() (Answer, error) {
	if c.err != nil {
		return Answer{}, c.err
	}
	return c.plan.Answer, nil
}

// queue has the calls on all spaces. Each workspace has its own lane, and lanes take turns: a storm from one workspace
// delays the calls of another by one call each. Calls that were planned before come first. The zero value is empty. The
// writer's lock guards it.
type queue struct {
	again []*call // calls that were planned before, in their order
	lanes map[ledger.ClusterName]*lane
	turns []*lane // lanes that hold calls; the first is next
	aside []*lane // lanes that are passed over for now
	size  int
}

type lane struct {
	Cluster ledger.ClusterName
	calls   []*call
}

func (q *queue) push(c *call) {
	l := q.lane(c.Lane)
	l.calls = append(l.calls, c)
	q.size++
}

// waiting counts the calls in the lane of a cluster.
func (q *queue) waiting(cluster ledger.ClusterName) int {
	if l, ok := q.lanes[cluster]; ok {
		return len(l.calls)
	}
	return 0
}

// putBack puts back calls that were popped, before all others.
func (q *queue) putBack(calls []*call) {
	for _, c := range calls {
		c.again = true
	}
	q.again = append(calls, q.again...)
	q.size += len(calls)
}

// lane returns the lane of a cluster. The caller must put a call into it.
func (q *queue) lane(cluster ledger.ClusterName) *lane {
	if l, ok := q.lanes[cluster]; ok {
		return l
	}
	if q.lanes == nil {
		q.lanes = map[ledger.ClusterName]*lane{}
	}
	l := &lane{Cluster: cluster}
	q.lanes[cluster] = l
	q.turns = append(q.turns, l)
	return l
}

// peek returns the next call; nil if there is none.
func (q *queue) peek() *call {
	switch {
	case len(q.again) > 0:
		return q.again[0]
	case len(q.turns) > 0:
		return q.turns[0].calls[0]
	}
	return nil
}

// pass passes over the lane of the call that peek returned, until resume. If that call was planned before, pass reports
// false, and does nothing.
func (q *queue) pass() bool {
	if len(q.again) > 0 {
		return false
	}
	q.aside, q.turns = append(q.aside, q.turns[0]), q.turns[1:]
	return true
}

// resume gives the next turns to the lanes that were passed over.
func (q *queue) resume() { q.turns, q.aside = append(q.aside, q.turns...), nil }

// pop removes the call that peek returned.
func (q *queue) pop() {
	q.size--
	if len(q.again) > 0 {
		q.again = q.again[1:]
		return
	}
	l := q.turns[0]
	l.calls = l.calls[1:]
	q.turns = q.turns[1:]
	if len(l.calls) == 0 {
		delete(q.lanes, l.Cluster)
		return
	}
	q.turns = append(q.turns, l)
}
