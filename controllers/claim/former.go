package claim

import (
	"cmp"
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// formers has the claims that were bound or deleted a moment ago, and whose blocks may be retained. For the names of
// these claims the cache is not trusted: it may lack the record of a retained block. The next claim of the name gets
// that block, or is refused because of it. No rule of safety depends on formers: a restart loses them. The clock is
// required. Safe for concurrent use.
type formers struct {
	clock clock.PassiveClock

	mu     sync.Mutex
	last   map[formerName]former
	pruned time.Time
}

// formerName is the name of a claim, with its workspace as the ledger names it.
type formerName struct {
	cluster ledger.ClusterName
	client.ObjectKey
}

// former is the claim that was the last of its name to be bound or deleted.
type former struct {
	holder ledger.Holder
	at     time.Time
}

func formerNameOf(h ledger.Holder) formerName {
	return formerName{h.Cluster, client.ObjectKey{Namespace: h.Namespace, Name: h.Name}}
}

// note notes a claim as the last one of its name, and forgets claims that were noted longer than cacheLag ago.
func (f *formers) note(h ledger.Holder) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.clock.Now()
	if f.last == nil {
		f.last = map[formerName]former{}
	}
	if now.Sub(f.pruned) >= cacheLag {
		for name, last := range f.last {
			if now.Sub(last.at) >= cacheLag {
				delete(f.last, name)
			}
		}
		f.pruned = now
	}
	f.last[formerNameOf(h)] = former{holder: h, at: now}
}

// of returns the last claim of a holder's name. ok is false if the last claim is the holder itself, or was noted longer
// than cacheLag ago.
func (f *formers) of(h ledger.Holder) (gone ledger.Holder, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	last, ok := f.last[formerNameOf(h)]
	return last.holder, ok && last.holder.Claim != h.Claim && f.clock.Since(last.at) < cacheLag
}

// noteFormer notes a claim that was bound or deleted, because the next claim of the name may come before the caches
// show the record. It notes nothing if the claim's reclaim policy, or else that of its class, is Delete: the block will
// be freed.
func (r *Reconciler) noteFormer(ctx context.Context, h ledger.Holder, last *ipamv1alpha1.IPClaim) {
	policy, err := r.Catalog.Reclaims(ctx, last.Spec.ReclaimPolicy, cmp.Or(last.Status.ClassName, last.Spec.ClassName))
	if err != nil || policy != ledger.Delete {
		r.formers.note(h)
	}
}

// left returns the block that the former claim of a holder's name still has. ok is false if there is no such block.
func (r *Reconciler) left(ctx context.Context, h ledger.Holder) (b ledger.Block, ok bool, err error) {
	gone, ok := r.formers.of(h)
	if !ok {
		return ledger.Block{}, false, nil
	}
	return r.Ledger.Blocks.Lookup(ctx, gone.Claim)
}
