package inbox

import (
	"cmp"
	"slices"
	"time"

	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"
)

// Waiter is an object that waits to be reconciled.
type Waiter struct {
	Request mcreconcile.Request
	// Since is when the object was made.
	Since time.Time
}

// OldestFirst lists the requests of waiters, each once, in the order in which they are
// to be reconciled. It sorts in place: the caller gives the waiters away, and holds no
// lock.
func OldestFirst(waiters []Waiter) []mcreconcile.Request {
	slices.SortFunc(waiters, Waiter.compare)
	waiters = slices.Compact(waiters)
	requests := make([]mcreconcile.Request, len(waiters))
	for i, w := range waiters {
		requests[i] = w.Request
	}
	return requests
}

// compare orders by age, then by name.
func (w Waiter) compare(other Waiter) int {
	if byAge := w.Since.Compare(other.Since); byAge != 0 {
		return byAge
	}
	return cmp.Or(
		cmp.Compare(w.Request.ClusterName, other.Request.ClusterName),
		cmp.Compare(w.Request.Namespace, other.Request.Namespace),
		cmp.Compare(w.Request.Name, other.Request.Name),
	)
}
