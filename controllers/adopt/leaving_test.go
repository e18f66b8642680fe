package adopt

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A finalizer of its owner may keep an IPPool that the ledger retired, with its status, for ever. It takes its former addresses from no pool
// that has them since.
func TestPass_ARetiredPoolWhoseIPPoolStays(t *testing.T) {
	l := newLoss(t)
	parent := l.had(gen.Pool("p"), "10.0.0.0/16", "lost", 7)
	retired := l.had(gen.Pool("old", gen.ChildOf("p", 24)), "10.0.9.0/24", "lost", 3)
	child := l.had(gen.Pool("new", gen.ChildOf("p", 24)), "10.0.9.0/24", "lost", 3)
	retired.DeletionTimestamp, retired.Finalizers = new(metav1.Now()), []string{"example.com/keep"}
	child.CreationTimestamp = metav1.NewTime(retired.CreationTimestamp.Add(time.Hour))
	inside := gen.Allocation("a", "new", "10.0.9.16/28")
	l.record.records = []*ipamv1alpha1.IPAllocation{inside}
	if err := l.pass(t.Context()); err != nil || !l.whole(parent) || !l.whole(child) || l.ledger.Recovery().Frozen("uid-of-p") {
		t.Errorf("pass = %v; want the parent and the new child whole", err)
	}
	l.wantBlocks(map[*ipamv1alpha1.IPAllocation]string{inside: "10.0.9.16/28 bound"})
	if p, ok := l.ledger.Pools().Get("uid-of-old"); ok {
		t.Errorf("the ledger has %s of the pool that was retired", p.CIDR)
	}
	if !l.whole(retired) {
		t.Error("the pool that was retired counts as lost: no root pool of its workspace is registered")
	}
}

// So it is with a root pool, whose addresses a later root pool has. It keeps no pool of its address domain frozen.
func TestPass_ARetiredRootPoolWhoseIPPoolStays(t *testing.T) {
	l := newLoss(t)
	retired, later := l.had(gen.Pool("old", gen.Domain("d")), "10.0.0.0/16", "lost", 7), l.had(gen.Pool("new"), "10.0.0.0/15", "lost", 7)
	beside := l.had(gen.Pool("beside", gen.Domain("d")), "10.9.0.0/16", "lost", 7)
	retired.DeletionTimestamp, retired.Finalizers = new(metav1.Now()), []string{"example.com/keep"}
	later.CreationTimestamp = metav1.NewTime(retired.CreationTimestamp.Add(time.Hour))
	if err := l.pass(t.Context()); err != nil || !l.whole(later) || !l.whole(beside) || !l.whole(retired) {
		t.Errorf("pass = %v, whole: %t and %t, and the retired one: %t; want all", err, l.whole(later), l.whole(beside), l.whole(retired))
	}
	if p, ok := l.ledger.Pools().Get(ledger.PoolID(retired.UID)); ok {
		t.Errorf("the ledger has %s of the pool that was retired", p.CIDR)
	}
}

// The addresses that a pool had which was retired may be those of a block of its parent by now.
func TestPass_ARetiredPoolAndABlockOfItsParent(t *testing.T) {
	l := newLoss(t)
	parent := l.had(gen.Pool("p"), "10.0.0.0/16", "lost", 7)
	retired := l.had(gen.Pool("old", gen.ChildOf("p", 24)), "10.0.9.0/24", "lost", 3)
	below := l.had(gen.Pool("below", gen.ChildOf("old", 28)), "10.0.9.0/28", "lost", 3)
	for _, pool := range []*ipamv1alpha1.IPPool{retired, below} {
		pool.DeletionTimestamp, pool.Finalizers = new(metav1.Now()), []string{"example.com/keep"}
	}
	block := gen.Allocation("a", "p", "10.0.9.16/28")
	l.record.records = []*ipamv1alpha1.IPAllocation{block}
	err := l.pass(t.Context())
	l.wantBlocks(map[*ipamv1alpha1.IPAllocation]string{block: "10.0.9.16/28 bound"})
	for _, pool := range []*ipamv1alpha1.IPPool{retired, below} {
		if p, ok := l.ledger.Pools().Get(ledger.PoolID(pool.UID)); ok {
			t.Errorf("the ledger has %s of pool %s, which was retired", p.CIDR, pool.Name)
		}
	}
	if !l.whole(parent) || l.ledger.Recovery().Frozen("uid-of-p") {
		t.Errorf("pass = %v; want the parent whole", err)
	}
}

// A new process does not know that a pool was retired whose IPPool a finalizer of its owner keeps. It comes back, and goes again: with its
// addresses, if nobody has a block of it.
func TestPass_APoolThatLeavesGoesAgain(t *testing.T) {
	l := newLoss(t)
	parent := l.had(gen.Pool("p"), "10.0.0.0/16", "lost", 7)
	for _, name := range []string{"empty", "used"} {
		pool := l.had(gen.Pool(name, gen.ChildOf("p", 24)), map[string]string{"empty": "10.0.8.0/24", "used": "10.0.9.0/24"}[name], "lost", 3)
		pool.DeletionTimestamp, pool.Finalizers = new(metav1.Now()), []string{"example.com/keep"}
	}
	inside := gen.Allocation("a", "used", "10.0.9.16/28")
	l.record.records = []*ipamv1alpha1.IPAllocation{inside}
	if err := l.pass(t.Context()); err != nil || !l.whole(parent) {
		t.Fatalf("pass = %v; want the parent whole", err)
	}
	for known := true; known; _, _, known, _ = l.ledger.Pools().Read(t.Context(), "uid-of-empty") { // it goes by itself
	}
	l.wantBlocks(map[*ipamv1alpha1.IPAllocation]string{inside: "10.0.9.16/28 bound"})
	if p, _ := l.ledger.Pools().Get("uid-of-used"); p.State != ledger.PoolDraining {
		t.Errorf("the pool with a block is %q; want it to drain", p.State)
	}
	if whole := l.whole(l.record.pools[1]); !whole {
		t.Error("the pool that went again counts as lost")
	}
}
