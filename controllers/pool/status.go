package pool

import (
	"context"
	"fmt"
	"math"
	"math/big"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
	"github.com/kcp-ipam/ipam/controllers/internal/resolve"
	"github.com/kcp-ipam/ipam/internal/forecast"
)

// The condition InUse names so many holders at most, and looks for them among so
// many blocks: the status of a pool that others use is written often.
const (
	named  = 10
	looked = 200
)

// report sets the status of a pool that the ledger knows.
func (p *pass) report(ctx context.Context) error {
	entered, ok := p.Ledger.Pools.Get(p.id)
	capacity, known := p.Ledger.Pools.Capacity(p.id)
	if !ok || !known {
		return fmt.Errorf("pool %s is not in the ledger", p.pool.Name)
	}
	warning, err := p.gateway(ctx, entered, capacity)
	if err != nil {
		return err
	}
	p.tellProgress(entered, warning)
	if entered.Derived == nil {
		p.sample(ctx, capacity)
	}
	shownCapacity, spaces := p.fullest(entered, capacity)
	succeeded(p.pool, entered, shownCapacity, warning)
	p.pool.Status.Spaces = spaces
	if entered.Derived == nil && p.owner.Cluster == p.Directory.Platform().Cluster {
		free, _ := p.Ledger.Pools.FreeBlocks(p.id)
		shown.show(p.pool.Name, figure{capacity, free, p.samples})
	}
	p.pool.Status.Ledger = &ipamv1alpha1.PoolLedger{ID: p.Ledger.Recovery.LedgerID(), Changes: catalog.Changes(entered, capacity.Changes)}
	if err := p.reportOverlap(ctx, entered.CIDR); err != nil {
		return err
	}
	if err := p.reportDiffering(ctx); err != nil {
		return err
	}
	return p.reportUse(ctx)
}

// tellProgress emits the event of a change that came into force, or of a failure that
// is over, before the status says so. A change that needs another one is told as a warning.
func (p *pass) tellProgress(entered ledger.Pool, warning string) {
	status := &p.pool.Status
	switch {
	case outcome.Failing(status.Conditions):
		p.tell(corev1.EventTypeNormal, ipamv1alpha1.ReasonReconciled, "holds "+entered.CIDR.String())
	case warning != "" && status.ObservedGeneration != p.pool.Generation:
		p.tell(corev1.EventTypeWarning, ipamv1alpha1.ReasonPoolUpdated, warning)
	case status.AllocatedCIDR != "" && status.ObservedGeneration != p.pool.Generation:
		p.tell(corev1.EventTypeNormal, ipamv1alpha1.ReasonPoolUpdated, "the change of the spec is in force")
	}
}

// succeeded sets the figures of a pool, and says what is wrong with its gateway if anything is.
func succeeded(pool *ipamv1alpha1.IPPool, entered ledger.Pool, capacity ledger.Capacity, warning string) {
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
	outcome.Succeed(&status.Conditions, pool.Generation, said)
}

// upward is a time as the API shows it, to the second: a block is free by then.
func upward(t time.Time) metav1.Time {
	return metav1.NewTime(t.Add(time.Second - time.Nanosecond).Truncate(time.Second))
}

// holding says what the pool holds, and what of the spec has to wait for blocks
// that were given out before.
func holding(pool *ipamv1alpha1.IPPool, entered ledger.Pool, capacity ledger.Capacity) string {
	said := "holds " + entered.CIDR.String()
	if entered.Derived == nil && entered.Space != catalog.Space(pool, entered.Cluster) {
		said += "; spec.addressDomain was changed while the pool was in use, and takes effect when its blocks are released"
	}
	if capacity.Stranded > 0 {
		said += fmt.Sprintf("; blocks in spec.reservations, in spec.excludedCIDRs or at the gateway that were given out before and stay until they are released: %d",
			capacity.Stranded)
	}
	return said
}

// percent is the share of the addresses that is taken, with four decimals.
func percent(c ledger.Capacity) float64 {
	share, _ := new(big.Rat).SetFrac(c.Allocated, c.Total).Float64()
	return math.Round(share*100*1e4) / 1e4
}

// refused sets the status of a pool that has no CIDR. One that has keeps it.
func refused(pool *ipamv1alpha1.IPPool, refusal *outcome.Refusal) {
	status := &pool.Status
	if status.AllocatedCIDR != "" {
		outcome.Retry(&status.Conditions, pool.Generation, refusal)
		return
	}
	status.Classes = ipamv1alpha1.ClassesColumn(pool.Spec.ClassNames)
	status.Phase = ipamv1alpha1.PoolPending
	if outcome.Stalled(refusal.Reason) || refusal.Reason == ipamv1alpha1.ReasonError {
		status.Phase = ipamv1alpha1.PoolError
	}
	status.ObservedGeneration = pool.Generation
	outcome.Refuse(&status.Conditions, pool.Generation, refusal)
}

// reportUse sets the condition InUse, which admission reads to refuse a deletion.
func (p *pass) reportUse(ctx context.Context) error {
	if !p.Ledger.Pools.InUse(p.id) && p.keptBy() == "" {
		p.set(ipamv1alpha1.ConditionInUse, metav1.ConditionFalse, ipamv1alpha1.ReasonUnused, "the pool holds no block")
		return nil
	}
	said, err := p.use(ctx)
	if err != nil {
		return fmt.Errorf("list the blocks of pool %s: %w", p.pool.Name, err)
	}
	p.set(ipamv1alpha1.ConditionInUse, metav1.ConditionTrue, ipamv1alpha1.ReasonInUse, said)
	return nil
}

// set sets a condition of the pool.
func (p *pass) set(condition string, status metav1.ConditionStatus, reason ipamv1alpha1.Reason, said string) {
	meta.SetStatusCondition(&p.pool.Status.Conditions, metav1.Condition{
		Type: condition, Status: status, Reason: string(reason), Message: said, ObservedGeneration: p.pool.Generation,
	})
}

// use describes the holders of a pool: those of its own workspace by name, all others by their number.
func use(names []string, total int) string {
	slices.Sort(names)
	said := "the pool holds 1 block"
	if total > 1 {
		said = fmt.Sprintf("the pool holds %d blocks", total)
	}
	if len(names) > 0 {
		said += ", of " + strings.Join(names, ", ")
	}
	if others := total - len(names); others > 0 && len(names) > 0 {
		said += fmt.Sprintf(" and %d others", others)
	}
	return said
}

// holderName names the object to delete for a block to be released.
func holderName(b ledger.Block) string {
	h := b.Holder
	switch {
	case h.Namespace == "":
		return "pool " + h.Name
	case b.State == ledger.Retained:
		return "IPAllocation " + h.Namespace + "/" + ipamv1alpha1.AllocationName(h.Namespace, h.Name) + ", retained from claim " + h.Name
	}
	return "claim " + h.Namespace + "/" + h.Name
}

// warn emits the event of a refusal.
func (p *pass) warn(refusal *outcome.Refusal) {
	p.tell(corev1.EventTypeWarning, refusal.Reason, refusal.Message)
}

// tell emits an event on the pool.
func (p *pass) tell(kind string, reason ipamv1alpha1.Reason, message string) {
	p.cluster.GetEventRecorder(component).Eventf(p.pool, nil, kind, string(reason), "Allocate", "%s", message)
}

// gateway says what is wrong with the gateway of a pool, now that its block is known; empty if nothing is. A
// gateway that was moved to an address in use stays with its holder, who is named if it is of the pool's own
// workspace.
func (p *pass) gateway(ctx context.Context, entered ledger.Pool, capacity ledger.Capacity) (string, error) {
	router, err := p.pool.Spec.Router(entered.CIDR)
	if err != nil {
		return err.Error(), nil //nolint:nilerr // it is said in the status
	}
	if capacity.Stranded == 0 || !entered.CIDR.Contains(router) {
		return "", nil
	}
	blocks, err := p.Ledger.Pools.Overlapping(ctx, p.id, netip.PrefixFrom(router, router.BitLen()))
	if err != nil && !ledger.Unreadable(err) {
		return "", fmt.Errorf("find the holder of the gateway of pool %s: %w", p.pool.Name, err)
	}
	for _, b := range blocks {
		if b.Pool != p.id || b.State == ledger.Cooling { // the block of a child pool is of its parent
			continue
		}
		holder := "another workspace"
		if b.Holder.Cluster == p.owner.Cluster {
			holder = holderName(b)
		}
		return fmt.Sprintf("spec.gateway %s lies in %s, which %s holds: release that, or write another gateway", router, b.Prefix, holder), nil
	}
	return "", nil
}

// settling is how old a pool is when its first sample is taken: most are filled while they are new.
const settling = time.Hour

// sample notes how many addresses are used, for forecasts. The samples are an annotation: there
// the plugin can read them, and they outlive the controller. A pool whose number does not change
// has no more of them, and costs no write.
func (p *pass) sample(ctx context.Context, capacity ledger.Capacity) {
	samples, err := forecast.Parse(p.pool.Annotations[ipamv1alpha1.AnnotationUsage])
	if err != nil {
		log.FromContext(ctx).Info("the samples of use begin again", "annotation", ipamv1alpha1.AnnotationUsage, "why", err.Error())
	}
	p.samples = samples
	now := p.now()
	if young := settling - now.Sub(p.pool.CreationTimestamp.Time); young > 0 {
		p.due = young
		return
	}
	next, wait := samples.Record(now, capacity.Allocated)
	p.due = wait
	if wait > 0 || len(next) > 0 && next.String() == samples.String() {
		return
	}
	if p.pool.Annotations == nil {
		p.pool.Annotations = map[string]string{}
	}
	p.samples, p.pool.Annotations[ipamv1alpha1.AnnotationUsage] = next, next.String()
}
