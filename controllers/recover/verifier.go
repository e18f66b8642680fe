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
	// share is the least ratio of the time between two verifications that nobody has asked for to the time that the
	// last one took. They are no further apart than rarest, whatever the ratio is then.
	share  = 200
	rarest = 4 * time.Hour
)

// Ledger is read as a whole. *allocator.Reader is one.
type Ledger interface {
	Walk(ctx context.Context, visitor ledger.Visitor) (revision int64, err error)
}

// World is every workspace, read live. *live.Reader is one.
type World interface {
	// Each calls visit for every object of the kind of list. It fails if it
	// cannot tell all of them.
	Each(ctx context.Context, list client.ObjectList, visit func(ledger.ClusterName, client.Object)) error
	// ExportGone reports whether the platform has no APIExport: then no workspace can be read.
	ExportGone(ctx context.Context) (bool, error)
	// Replaced returns why the APIExport shows none of the objects that the ledger knows; empty: it shows them.
	Replaced(ctx context.Context) (why string, err error)
}

// VerifierOptions configure a Verifier. Ledger and World are required.
type VerifierOptions struct {
	Ledger Ledger
	World  World
	// Interval between two verifications that nobody has asked for, jittered by a fifth. It is longer, up to four
	// hours, if the last one took more than a two-hundredth of it. Default 10 minutes.
	Interval time.Duration
	// Pause between two looks: what is merely in flight is over by then. Default 5 s.
	Pause time.Duration
	// Clock defaults to the real one.
	Clock clock.WithTicker
}

// VerifierDefaults are what NewVerifier takes for what is zero.
func VerifierDefaults() VerifierOptions {
	return VerifierOptions{Interval: 10 * time.Minute, Pause: 5 * time.Second}
}

// Verifier compares ledger and objects when asked, and from time to time when a
// manager runs it; of several replicas the leader does. It is safe for concurrent use.
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

// NeedLeaderElection says that one replica verifies by itself.
func (v *Verifier) NeedLeaderElection() bool { return true }

// Start verifies from time to time until the context ends.
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

// rest is how long to wait after the last verification. Each has the API servers list every object.
func (v *Verifier) rest() time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	rest := max(v.Interval, min(share*v.worked, rarest))
	interval.Set(rest.Seconds())
	return rest
}

// Verify looks, and where something differs looks again after the pause. What
// differs in the same way both times is a finding. An error means that not
// everything could be read, and says nothing about what was.
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

// verify tells how long it has paused, too.
func (v *Verifier) verify(ctx context.Context) (report Report, paused time.Duration, err error) {
	first, err := v.look(ctx)
	if err != nil || len(first.findings) == 0 {
		return v.report(first), 0, err
	}
	differed := make(map[Finding]bool, len(first.findings))
	for _, f := range first.findings {
		differed[f] = true
	}
	first = nil // before the second look takes as much memory
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

// look compares once.
func (v *Verifier) look(ctx context.Context) (*books, error) {
	b, err := audit(ctx, v.Ledger, v.Clock.Now())
	if err != nil {
		return nil, err
	}
	if gone, err := v.World.ExportGone(ctx); err == nil && gone { // else the comparison tells what cannot be read
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

// compare joins the books with every workspace. The ledger was read first: what is bound from then on has objects
// without a block, which the next look settles. Claims come before IPAllocations: one that is written in between is not
// missed.
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

// report is what a look says beside its findings.
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
