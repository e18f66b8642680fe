package record

import (
	"context"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

const (
	// shortest and longest bound the pause before a record is tried again in a namespace that forbids records.
	shortest, longest = 5 * time.Second, 5 * time.Minute
	// probing is how long the other claims of the namespace wait for the result of that try.
	probing = 10 * time.Second
)

// Maker creates records. A ResourceQuota of a tenant may forbid them, because it counts records, too. Then one claim of
// the namespace tries again, after pauses that grow to minutes, and the other claims wait for its result. A quota
// counts one namespace, so claims of other namespaces do not wait. Safe for concurrent use.
type Maker struct {
	Clock clock.PassiveClock // required

	mu   sync.Mutex
	bars map[place]bar
}

// place is a namespace of a workspace.
type place struct {
	cluster   ledger.ClusterName
	namespace string
}

// bar says when a namespace that forbids records is tried again.
type bar struct {
	until time.Time // the time of the next try
	pause time.Duration
	why   error
}

// BarredError says that the namespace forbids the record. The server has refused it now, or has refused the try of
// another claim.
type BarredError struct {
	After time.Duration // until this claim may try
	Err   error         // the error of the try
}

func (e *BarredError) Error() string { return e.Err.Error() }

func (e *BarredError) Unwrap() error { return e.Err }

// Create creates a record in a workspace. It returns a *BarredError if the namespace forbids records. It asks the
// server only if a try is due.
func (m *Maker) Create(
	ctx context.Context, workspace client.Client, cluster ledger.ClusterName, record *ipamv1alpha1.IPAllocation,
) error {
	at := place{cluster, record.Namespace}
	probes, err := m.enter(at)
	if err != nil {
		return err
	}
	err = workspace.Create(ctx, record)
	switch {
	case err == nil, apierrors.IsAlreadyExists(err):
		m.lift(at)
		return err
	case !apierrors.IsForbidden(err), apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return err
	}
	pause := m.bar(at, probes, err)
	log.FromContext(ctx).Info("the namespace forbids an IPAllocation; no other is tried there for a while", "pause", pause,
		"why", err.Error())
	return &BarredError{After: pause + probing, Err: err} // others go first, as they may be allowed
}

// enter returns an error if no record may be tried now. probes reports whether this is the one try after a pause.
func (m *Maker) enter(at place) (probes bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, barred := m.bars[at]
	now := m.Clock.Now()
	if barred && now.Before(b.until) {
		return false, &BarredError{After: b.until.Sub(now), Err: b.why}
	}
	if barred {
		b.until = now.Add(probing)
		m.bars[at] = b
	}
	return barred, nil
}

// lift forgets that a namespace forbids records.
func (m *Maker) lift(at place) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.bars, at)
}

// bar notes that a namespace forbids records, and returns the pause before the next try. The result of a try that began
// before the namespace was barred does not make the pause longer. bar also forgets namespaces in which nobody has tried
// for an hour.
func (m *Maker) bar(at place, probes bool, why error) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, barred := m.bars[at]
	if barred && !probes {
		return b.pause
	}
	now := m.Clock.Now()
	b.pause = min(longest, max(shortest, 2*b.pause))
	b.until, b.why = now.Add(b.pause), why
	maps.DeleteFunc(m.bars, func(_ place, b bar) bool { return now.Sub(b.until) > time.Hour })
	if m.bars == nil {
		m.bars = map[place]bar{}
	}
	m.bars[at] = b
	return b.pause
}
