package recover

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

const (
	// The pause between two periodic verifications is at least share times as long as the last verification took. This
	// minimum is never more than rarest.
	share  = 200
	rarest = 4 * time.Hour
)

// Ledger reads the whole ledger. *allocator.Reader implements it.
type Ledger interface {
	Walk(ctx context.Context, visitor ledger.Visitor) (revision int64, err error)
}

// World reads the objects of all workspaces live. *live.Reader implements it.
type World interface {
	// Each calls visit for every object of the kind of list. It fails if it cannot read all of them.
	Each(ctx context.Context, list client.ObjectList, visit func(ledger.ClusterName, client.Object)) error
	// ExportGone reports whether the platform has no APIExport: then no workspace can be read.
	ExportGone(ctx context.Context) (bool, error)
	// Replaced returns why the APIExport shows none of the objects that the ledger knows, or an empty string if it
	// shows them.
	Replaced(ctx context.Context) (why string, err error)
}

// VerifierOptions configure a Verifier. Ledger and World are required.
type VerifierOptions struct {
	Ledger Ledger
	World  World
	// Interval between two periodic verifications, jittered by a fifth. It is longer, up to four hours, if the last
	// verification took more than a two-hundredth of it. Default 10 minutes.
	Interval time.Duration
	// Pause between the two comparisons of a verification, in which writes in flight end. Default 5 s.
	Pause time.Duration
	// Clock defaults to the real one.
	Clock clock.WithTicker
}

// VerifierDefaults returns the values that NewVerifier uses for zero fields.
func VerifierDefaults() VerifierOptions {
	return VerifierOptions{Interval: 10 * time.Minute, Pause: 5 * time.Second}
}

// Verifier compares the ledger with the objects: on request, and periodically on the leader if a manager runs it. Safe
// for concurrent use.
type Verifier struct {
	VerifierOptions

	mu     sync.Mutex
	last   Report
	worked time.Duration // on the last verification, without the pause
}

var _ manager.LeaderElectionRunnable = (*Verifier)(nil)

// NewVerifier makes a Verifier.
func NewVerifier(opts VerifierOptions) *Verifier {
	usual := VerifierDefaults()
	opts.Interval = cmp.Or(opts.Interval, usual.Interval)
	opts.Pause = cmp.Or(opts.Pause, usual.Pause)
	if opts.Clock == nil {
		opts.Clock = clock.RealClock{}
	}
	return &Verifier{VerifierOptions: opts}
}

// NeedLeaderElection returns true: only the leader verifies periodically.
func (v *Verifier) NeedLeaderElection() bool { return true }

// Start verifies periodically until the context ends.
func (v *Verifier) Start(ctx context.Context) error {
	for v.sleep(ctx, wait.Jitter(v.rest(), 0.2)) == nil {
		report, err := v.Verify(ctx)
		if err != nil {
			if ctx.Err() == nil {
				log.FromContext(ctx).Error(err, "verify")
			}
			continue
		}
		for _, f := range report.Findings {
			log.FromContext(ctx).Info("finding", "kind", f.Kind, "cluster", f.Cluster, "namespace", f.Namespace, "name", f.Name,
				"prefix", f.Prefix, "message", f.Message, "repair", f.Repair)
		}
	}
	return nil
}

// rest returns the pause before the next periodic verification. It grows with the duration of the last one, because a
// verification makes the API servers list every object.
func (v *Verifier) rest() time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	rest := max(v.Interval, min(share*v.worked, rarest))
	interval.Set(rest.Seconds())
	return rest
}

// Verify compares the ledger with the objects. If something differs, Verify compares again after Pause, and reports
// what differs in the same way both times. If anything cannot be read, Verify returns an error and no report.
func (v *Verifier) Verify(ctx context.Context) (Report, error) {
	begun := v.Clock.Now()
	report, paused, err := v.verify(ctx)
	took := v.Clock.Since(begun)
	v.mu.Lock()
	v.worked = took - paused
	if err == nil {
		v.last = report
	}
	v.mu.Unlock()
	if err != nil {
		failures.Inc()
		return Report{}, err
	}
	report.export()
	durations.Observe(took.Seconds())
	return report, nil
}

// verify does the work of Verify. It also returns how long it has paused.
func (v *Verifier) verify(ctx context.Context) (report Report, paused time.Duration, err error) {
	first, err := v.look(ctx)
	if err != nil || len(first.findings) == 0 {
		return v.report(first), 0, err
	}
	differed := make(map[Finding]bool, len(first.findings))
	for _, f := range first.findings {
		differed[f] = true
	}
	first = nil // free it before the second comparison takes as much memory
	begun := v.Clock.Now()
	err = v.sleep(ctx, v.Pause)
	paused = v.Clock.Since(begun)
	if err != nil {
		return Report{}, paused, err
	}
	second, err := v.look(ctx)
	if err != nil {
		return Report{}, paused, err
	}
	report = v.report(second)
	for _, f := range second.findings {
		if differed[f] {
			report.Findings = append(report.Findings, f)
		}
	}
	sorted(report.Findings)
	return report, paused, nil
}

// look makes one comparison.
func (v *Verifier) look(ctx context.Context) (*books, error) {
	b, err := audit(ctx, v.Ledger, v.Clock.Now())
	if err != nil {
		return nil, err
	}
	if gone, err := v.World.ExportGone(ctx); err == nil && gone { // after an error, the comparison fails by itself
		b.findings = []Finding{{
			Kind: ExportGone, Name: ipamv1alpha1.GroupName,
			Message: "the platform has no APIExport of this name, so no tenant is served, and no workspace can be compared: " +
				"create it again, by --bootstrap or kubectl ipam init",
		}}
		return b, nil
	}
	if why, err := v.World.Replaced(ctx); err == nil && why != "" {
		b.findings = []Finding{{Kind: ExportReplaced, Name: ipamv1alpha1.GroupName, Message: why}}
		return b, nil
	}
	return b, b.compare(ctx, v.World)
}

// compare joins the books with the objects of every workspace. The ledger was read before. So a block that was bound
// since is missing in the books, although its objects exist; the second comparison settles that. Claims are listed
// before IPAllocations, so that compare sees an IPAllocation that is written in between.
func (b *books) compare(ctx context.Context, world World) error {
	for _, list := range []client.ObjectList{
		&ipamv1alpha1.IPPoolList{}, &ipamv1alpha1.IPClaimList{}, &ipamv1alpha1.IPAllocationList{},
	} {
		if err := world.Each(ctx, list, b.see); err != nil {
			return fmt.Errorf("read what is published: %w", err)
		}
	}
	b.end()
	return nil
}

// report returns the report of a comparison, without findings.
func (v *Verifier) report(b *books) Report {
	if b == nil {
		return Report{}
	}
	return Report{
		Revision: b.revision, Time: v.Clock.Now(), Pools: len(b.pools), Blocks: b.blocks.count, Findings: []Finding{},
	}
}

func (v *Verifier) sleep(ctx context.Context, d time.Duration) error {
	timer := v.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
