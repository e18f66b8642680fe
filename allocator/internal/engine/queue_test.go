package engine

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

func callOf(cluster ledger.ClusterName, claim string) *call {
	return &call{Op: Op{Lane: cluster}, plan: Plan{Answer: Answer{Block: ledger.Block{Class: claim}}}, done: make(chan struct{})}
}

// order pops n calls and names their claims.
func (q *queue) order(n int) (popped []*call, names string) {
	for range n {
		c := q.peek()
		q.pop()
		popped = append(popped, c)
		names += " " + c.plan.Block.Class
	}
	return popped, strings.TrimSpace(names)
}

// A storm from one workspace delays each call of another workspace by one call at most.
func TestQueue_LetsWorkspacesTakeTurns(t *testing.T) {
	var q queue
	for i := range 4 {
		q.push(callOf("storm", fmt.Sprint("s", i)))
	}
	q.push(callOf("quiet", "q0"))
	q.push(callOf("other", "o0"))
	q.push(callOf("quiet", "q1"))

	if _, got := q.order(7); got != "s0 q0 o0 s1 q1 s2 s3" {
		t.Errorf("order: %v", got)
	}
	if q.peek() != nil || q.size != 0 || len(q.lanes) != 0 {
		t.Error("the queue is not empty", q)
	}
}

// Calls that are put back keep their order, and come before the calls that came meanwhile.
func TestQueue_PutsCallsBackInTheirOrder(t *testing.T) {
	var q queue
	for i := range 3 {
		q.push(callOf("a", fmt.Sprint("a", i)))
		q.push(callOf("b", fmt.Sprint("b", i)))
	}
	popped, _ := q.order(4)
	q.push(callOf("a", "a3"))
	q.putBack(popped)
	if q.size != 7 {
		t.Errorf("%d calls are queued, want 7", q.size)
	}
	if _, got := q.order(7); got != "a0 b0 a1 b1 a2 b2 a3" {
		t.Errorf("order: %v, want a0 b0 a1 b1 a2 b2 a3", got)
	}
}
