package pool

import (
	"context"
	"fmt"
	"math"
	"math/big"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
	"github.com/kcp-ipam/ipam/controllers/internal/resolve"
	"github.com/kcp-ipam/ipam/internal/forecast"
)

// report sets the status of a pool that the ledger knows.
func (p *pass) report(ctx context.Context) error {
	entered, ok := p.Ledger.Pools.Get(p.id)
	capacity, known := p.Ledger.Pools.Capacity(p.id)
	if !ok || !known {
		return fmt.Errorf("pool %s is not in the ledger", p.pool.Name)
	}
	uses := p.usage()
	warning, err := uses.gateway(ctx, p.pool, entered, capacity)
	if err != nil {
		return err
	}
	p.reporter().progress(entered, warning)
	if entered.Derived == nil {
		p.sample(ctx, capacity)
	} else {
		p.pool.Status.ScopeDigest = ledger.Digest(p.id)
		p.pool.Status.UniqueWithin = catalog.UniqueWithin(p.Ledger.Pools, entered)
	}
	shownCapacity, spaces := uses.fullest(capacity)
	if warning == "" {
		warning = p.classless(ctx, entered)
	}
	unfit, err := p.unfit(ctx)
	if err != nil {
		return err
	}
	succeeded(p.pool, entered, shownCapacity, warning, unfit)
	p.pool.Status.Spaces = spaces
	p.reportFullness(shownCapacity)
	if err := p.reportParent(entered); err != nil {
		return err
	}
	if entered.Derived == nil && p.owner.Cluster == p.Directory.Platform().Cluster {
		free, _ := p.Ledger.Pools.FreeBlocks(p.id)
		shown.show(p.pool.Name, figure{capacity, free, p.samples})
	}
	// If the head cannot be read, the status keeps its number: with a lower one, an older copy of the ledger would be
	// believed.
	if changes, err := p.Ledger.Pools.Changes(p.id); err == nil {
		p.pool.Status.Ledger = &ipamv1alpha1.PoolLedger{
			ID: p.Ledger.Recovery.LedgerID(), Changes: catalog.Changes(entered, changes),
		}
	}
	if err := p.reportOverlap(ctx, entered.CIDR); err != nil {
		return err
	}
	return p.reportUse(ctx)
}

// unfit returns why a pool that has its CIDR gives out no addresses: it is deleted and in use, or its classes cannot
// share it. The refusal is nil if the pool gives out addresses.
func (p *pass) unfit(ctx context.Context) (*outcome.Refusal, error) {
	differing, err := p.reportDiffering(ctx)
	if err != nil || p.pool.DeletionTimestamp.IsZero() {
		return differing, err
	}
	holds, err := p.usage().describe(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the blocks of pool %s: %w", p.pool.Name, err)
	}
	said := "the pool is deleted, and goes when the last block of it is released: " + holds.words
	p.reporter().set(ipamv1alpha1.ConditionDraining, metav1.ConditionTrue, ipamv1alpha1.ReasonBlockInUse, said)
	return &outcome.Refusal{Reason: ipamv1alpha1.ReasonBlockInUse, Message: said}, nil
}

// classless says that the class that has made a pool is gone. The text is empty if the class is there, or if nobody can
// tell.
func (p *pass) classless(ctx context.Context, entered ledger.Pool) string {
	if entered.Derived == nil || entered.Derived.Class == "" {
		return ""
	}
	view := p.Catalog.View(ctx)
	if _, ok := view.Class(entered.Derived.Class); ok || view.Err() != nil {
		return ""
	}
	return fmt.Sprintf("class %q is gone: the claims inside keep their addresses, "+
		"and others are refused until it is there again", entered.Derived.Class)
}

// reportParent shows which pool the block of a child with a parent class is carved from. If the ledger is lost, the
// published path leads to that pool.
func (p *pass) reportParent(entered ledger.Pool) error {
	if p.pool.Spec.ParentClassName == "" {
		return nil
	}
	above, ok := p.Ledger.Pools.Get(entered.Parent)
	if !ok {
		return nil // the status stays as it is
	}
	ref := &ipamv1alpha1.PoolRef{Name: above.Name}
	if above.Cluster != p.owner.Cluster {
		path := p.Directory.Workspace(above.Cluster).Path
		if path == "" {
			return fmt.Errorf("the path of the workspace that %s is carved from is not known yet", p.pool.Name)
		}
		ref.ProjectRef = &ipamv1alpha1.ProjectRef{Name: path}
	}
	p.pool.Status.ParentPoolRef = ref
	return nil
}

// succeeded sets the figures and the conditions of a pool. warning is added to the message, unless it is empty. unfit
// is why the pool gives out no addresses; nil: it does.
func succeeded(
	pool *ipamv1alpha1.IPPool, entered ledger.Pool, capacity ledger.Capacity, warning string, unfit *outcome.Refusal,
) {
	status := &pool.Status
	status.Phase = ipamv1alpha1.PoolReady
	if capacity.Available.Sign() == 0 {
		status.Phase = ipamv1alpha1.PoolExhausted
	}
	status.AllocatedCIDR = entered.CIDR.String()
	status.IPFamily = resolve.Family(entered.CIDR)
	status.Capacity = &ipamv1alpha1.PoolCapacity{
		Total:     capacity.Total.String(),
		Allocated: capacity.Allocated.String(),
		Available: capacity.Available.String(),
	}
	status.Capacity.Cooling, status.NextRelease = "", nil
	if !capacity.NextRelease.IsZero() {
		status.Capacity.Cooling = capacity.Cooling.String()
		status.NextRelease = new(upward(capacity.NextRelease))
	}
	status.UtilizationPercent = new(percent(capacity))
	status.Utilization = ipamv1alpha1.UtilizationColumn(*status.UtilizationPercent)
	status.Classes = ipamv1alpha1.ClassesColumn(pool.Spec.ClassNames)
	status.LargestFreePrefix = nil
	if capacity.LargestFree >= 0 {
		status.LargestFreePrefix = new(int32(capacity.LargestFree)) //nolint:gosec // at most 128
	}
	status.ObservedGeneration = pool.Generation
	said := holding(pool, entered, capacity)
	if warning != "" {
		said += "; " + warning
	}
	switch {
	case unfit == nil:
		outcome.Succeed(&status.Conditions, pool.Generation, said)
		return
	case outcome.Stalled(unfit.Reason):
		status.Phase = ipamv1alpha1.PoolError
	default:
		status.Phase = ipamv1alpha1.PoolPending
	}
	outcome.Unfit(&status.Conditions, pool.Generation, said, unfit)
}

// upward returns a time as the API shows it, rounded up to the second: a block is free by then.
func upward(t time.Time) metav1.Time {
	return metav1.NewTime(t.Add(time.Second - time.Nanosecond).Truncate(time.Second))
}

// holding says which CIDR the pool holds, and which changes of the spec wait for blocks that were given out before.
func holding(pool *ipamv1alpha1.IPPool, entered ledger.Pool, capacity ledger.Capacity) string {
	said := "holds " + entered.CIDR.String()
	if entered.Derived == nil && moved(pool, entered) {
		said += "; spec.addressDomain was changed while the pool was in use, and takes effect when its blocks are released"
	}
	if capacity.Stranded > 0 {
		said += fmt.Sprintf("; blocks in spec.reservations, "+
			"in spec.excludedCIDRs or at the gateway that were given out before and stay until they are released: %d",
			capacity.Stranded)
	}
	return said
}

// percent returns the percentage of addresses that are taken, with four decimals.
func percent(c ledger.Capacity) float64 {
	share, _ := new(big.Rat).SetFrac(c.Allocated, c.Total).Float64()
	return math.Round(share*100*1e4) / 1e4
}

// reportUse sets the condition InUse, which admission reads to refuse a deletion.
func (p *pass) reportUse(ctx context.Context) error {
	uses := p.usage()
	said, err := uses.describe(ctx)
	if err != nil {
		return fmt.Errorf("list the blocks of pool %s: %w", p.pool.Name, err)
	}
	if !p.Ledger.Pools.InUse(p.id) && uses.keptBy() == "" {
		p.reporter().set(ipamv1alpha1.ConditionInUse, metav1.ConditionFalse, ipamv1alpha1.ReasonUnused, said.words)
		return nil
	}
	reason := ipamv1alpha1.ReasonInUse
	if said.unstored {
		reason = ipamv1alpha1.ReasonClaimNotStored
	}
	p.reporter().set(ipamv1alpha1.ConditionInUse, metav1.ConditionTrue, reason, said.words)
	return nil
}

// settling is how old a pool is when its first sample is taken: most pools are filled while they are new.
const settling = time.Hour

// sample notes how many addresses are used, for forecasts. The samples are an annotation: the plugin can read them
// there, and they outlive the controller. While the number does not change, no sample is added, and nothing is written.
func (p *pass) sample(ctx context.Context, capacity ledger.Capacity) {
	samples, err := forecast.Parse(p.pool.Annotations[ipamv1alpha1.AnnotationUsage])
	if err != nil {
		log.FromContext(ctx).Info("the samples of use begin again", "annotation", ipamv1alpha1.AnnotationUsage,
			"why", err.Error())
	}
	p.samples = samples
	now := p.now()
	if young := settling - now.Sub(p.pool.CreationTimestamp.Time); young > 0 {
		p.lookAgain(young)
		return
	}
	next, wait := samples.Record(now, capacity.Allocated)
	if wait > 0 {
		p.lookAgain(wait)
	}
	if wait > 0 || len(next) > 0 && next.String() == samples.String() {
		return
	}
	if p.pool.Annotations == nil {
		p.pool.Annotations = map[string]string{}
	}
	p.samples, p.pool.Annotations[ipamv1alpha1.AnnotationUsage] = next, next.String()
}
