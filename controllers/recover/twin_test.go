package recover

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/test/gen"
)

// tale is all that a random world has under one name: a pool, a claim with its block, or a claim with its range. Tales
// share no blocks, so that no tale influences the findings on another.
type tale struct {
	name    string
	at      int             // the number of its block; see nth
	pool    *ledger.Pool    // in the ledger
	held    *ledger.Block   // in the ledger
	unread  bool            // the block cannot be read
	objects []client.Object // pools, then claims, then IPAllocations
}

// TestJoin_AgreesWithAnOracle compares the findings of the join, in random worlds, with an oracle that judges each name
// alone.
func TestJoin_AgreesWithAnOracle(t *testing.T) {
	t.Parallel()
	found := map[Kind]int{}
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 1))
		b, tales := opened(), make([]tale, 30)
		for i := range tales {
			tales[i] = tell(rng, i, b.now)
			tales[i].enter(b)
		}
		var want, got, lacking, lacks []string
		for _, tale := range tales {
			if tale.held != nil {
				b.addClaim(tale.held.Holder.Claim, tale.held.Space, tale.held.Prefix)
			}
			if p := tale.pool; p != nil && p.Derived != nil {
				b.addClaim(ledger.ClaimID(p.ID), "uid-of-p", p.CIDR)
			}
			if tale.unread {
				b.addClaim(ledger.ClaimID("uid-of-"+tale.name), "uid-of-p", nth(tale.at))
			}
			want, lacking = append(want, tale.differs(b.now)...), append(lacking, tale.lacks()...)
		}
		b.close()
		b.see("w", gen.Pool("p"))
		for _, kind := range []string{"IPPool", "IPClaim", "IPAllocation"} {
			for _, tale := range tales {
				for _, object := range tale.objects {
					if object.GetObjectKind().GroupVersionKind().Kind != kind {
						continue
					}
					b.see("w", object)
					if r := b.join(readRecord("w", object)); r.published() && r.lacks() && kind != "IPPool" {
						lacks = append(lacks, kind+" "+tale.name)
					}
				}
			}
		}
		b.end()
		for _, f := range b.findings {
			got = append(got, string(f.Kind)+" "+f.Name)
			found[f.Kind]++
		}
		for _, all := range [][]string{want, got, lacking, lacks} {
			slices.Sort(all)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("seed %d: findings (-want +got):\n%s", seed, diff)
		}
		if diff := cmp.Diff(lacking, lacks); diff != "" {
			t.Fatalf("seed %d: lacking (-want +got):\n%s", seed, diff)
		}
	}
	for _, kind := range []Kind{
		BlockWithoutClaim, ClaimWithoutBlock, ClaimMismatch, BlockWithoutRecord, RecordWithoutBlock, LeaseOverdue, RecordMismatch,
		PoolWithoutObject, PoolNotRegistered, PoolMismatch, BlockOverdue,
	} {
		if found[kind] == 0 {
			t.Errorf("no world has %s", kind)
		}
	}
}

// tell makes a random tale.
func tell(rng *rand.Rand, i int, now time.Time) tale {
	odds := func(percent int) bool { return rng.IntN(100) < percent }
	story := tale{name: fmt.Sprint("n", i), at: i}
	at := func() int { // the number of the block that an object shows
		if odds(80) {
			return i
		}
		return 1000 + i
	}
	switch rng.IntN(6) {
	case 0:
		cidr := netip.PrefixFrom(netip.AddrFrom4([4]byte{11, byte(i)}), 16)
		if odds(70) {
			state := []ledger.PoolState{ledger.PoolOpen, ledger.PoolDraining}[rng.IntN(2)]
			story.pool = &ledger.Pool{ID: ledger.PoolID("uid-of-" + story.name), Cluster: "w", Name: story.name, Space: ledger.SpaceID("uid-of-" + story.name), CIDR: cidr, State: state}
		}
		if odds(70) {
			pool := gen.Pool(story.name)
			pool.Status.AllocatedCIDR = []string{"", cidr.String(), cidr.String(), "11.99.0.0/16"}[rng.IntN(4)]
			story.objects = append(story.objects, pool)
		}
		return story
	case 1:
		if odds(70) {
			state := []ledger.PoolState{ledger.PoolOpen, ledger.PoolOpen, ledger.PoolDraining}[rng.IntN(3)]
			pool := network(story.name, i, state)
			story.pool = &pool
		}
		if odds(70) {
			claim := showing(story.name, at(), gen.ForRange())
			if odds(20) {
				claim.Status = ipamv1alpha1.IPClaimStatus{}
			}
			story.objects = append(story.objects, claim)
		}
		return story
	}
	answered := types.UID("")
	if odds(30) {
		answered = types.UID(promise.NewID("w", "default", story.name))
	}
	ages := []time.Duration{-overdue - time.Minute, -time.Second, time.Hour}
	if odds(80) {
		held := bound(story.name, i, []ledger.BlockState{ledger.Bound, ledger.Bound, ledger.Retained, ledger.Cooling}[rng.IntN(4)])
		held.BoundAt = now.Add(ages[rng.IntN(2)])
		if held.State == ledger.Cooling || held.State == ledger.Retained && odds(60) {
			held.Until = now.Add(ages[rng.IntN(3)]).UTC()
		}
		if answered != "" {
			held.Holder.Claim = ledger.ClaimID(answered)
		}
		story.held = &held
	} else if answered == "" {
		story.unread = odds(30)
	}
	if odds(70) {
		claim := showing(story.name, at())
		claim.Status.AllocationID = answered
		if answered == "" && odds(20) {
			claim.Status = ipamv1alpha1.IPClaimStatus{}
		}
		if odds(20) {
			claim.DeletionTimestamp = new(metav1.NewTime(now))
		}
		story.objects = append(story.objects, claim)
	}
	for odds(60) && len(story.objects) < 3 {
		record := gen.Allocation(story.name, "p", nth(at()).String())
		record.Spec.ClaimRef.AllocationID = answered
		if odds(20) {
			record.Spec.ReclaimPolicy = ipamv1alpha1.ReclaimRetain
		}
		if odds(40) {
			record.Spec.ClaimRef = nil
			record.Annotations = map[string]string{ipamv1alpha1.AnnotationRetainedFrom: fmt.Sprintf("%s/uid-of-%s/%s", story.name, story.name, answered)}
			if story.held != nil && !story.held.Until.IsZero() && odds(80) {
				record.Status.Expires = new(metav1.NewTime(story.held.Until))
			}
		}
		story.objects = append(story.objects, record)
	}
	return story
}

// enter adds the ledger's part of the tale to books, without the keys of claims.
func (s tale) enter(b *books) {
	if s.pool != nil {
		b.space(s.pool.Space).head = true
		b.addPool(*s.pool)
		if s.pool.Derived != nil {
			carved := bound(s.name, s.at, ledger.Bound)
			carved.Holder = ledger.Holder{Claim: ledger.ClaimID(s.pool.ID), Cluster: "w", Name: s.pool.Name}
			b.addBlock(carved)
		}
	}
	if s.held != nil {
		b.addBlock(*s.held)
	}
	if s.unread {
		b.addUnread("uid-of-p", nth(s.at))
	}
}

// has reports whether the claim has a block or a range.
func (s tale) has() bool {
	return s.held != nil && s.held.State != ledger.Cooling || s.pool != nil && s.pool.Derived != nil
}

// lacks lists the objects that show a block or a range which the ledger does not have for the claim.
func (s tale) lacks() (lacking []string) {
	for _, object := range s.objects {
		shown, kind := "", "IPClaim"
		switch o := object.(type) {
		case *ipamv1alpha1.IPClaim:
			shown = o.Status.AllocatedCIDR
		case *ipamv1alpha1.IPAllocation:
			shown, kind = o.Status.AllocatedCIDR, "IPAllocation"
		}
		drains := s.pool != nil && s.pool.State != ledger.PoolOpen
		if shown != "" && (!s.has() || drains || shown != nth(s.at).String()) {
			lacking = append(lacking, kind+" "+s.name)
		}
	}
	return lacking
}

// differs lists the findings that docs/verify.md promises for the tale.
func (s tale) differs(now time.Time) (all []string) {
	find := func(when bool, kind Kind) {
		if when {
			all = append(all, string(kind)+" "+s.name)
		}
	}
	var claim *ipamv1alpha1.IPClaim
	var shown *ipamv1alpha1.IPPool
	records := 0
	for _, object := range s.objects {
		switch o := object.(type) {
		case *ipamv1alpha1.IPPool:
			shown = o
		case *ipamv1alpha1.IPClaim:
			claim = o
		case *ipamv1alpha1.IPAllocation:
			records++
		}
	}
	if s.pool != nil && s.pool.Derived == nil || shown != nil {
		find(s.pool == nil && shown.Status.AllocatedCIDR != "", PoolNotRegistered)
		find(s.pool != nil && shown == nil && s.pool.State == ledger.PoolOpen, PoolWithoutObject)
		find(s.pool != nil && shown != nil && shown.Status.AllocatedCIDR != "" && shown.Status.AllocatedCIDR != s.pool.CIDR.String(), PoolMismatch)
		return all
	}
	shows := claim != nil && claim.Status.AllocatedCIDR != ""
	leaves := claim != nil && claim.DeletionTimestamp != nil
	elsewhere := shows && claim.Status.AllocatedCIDR != nth(s.at).String()
	find(shows && !s.has() && !s.unread, ClaimWithoutBlock)
	if s.pool != nil {
		find(elsewhere, ClaimMismatch)
		find(claim == nil, BlockWithoutClaim)
		return all
	}
	var held ledger.Block
	if s.held != nil {
		held = *s.held
	}
	past := !held.Until.IsZero() && now.Sub(held.Until) > overdue
	fresh := claim == nil && ledger.IsAllocationID(held.Holder.Claim) && now.Sub(held.BoundAt) < overdue
	is, retained := held.State == ledger.Bound, held.State == ledger.Retained
	find(held.State == ledger.Cooling && past, BlockOverdue)
	find(claim != nil && (retained || is && (elsewhere || !shows && !leaves)), ClaimMismatch)
	find(is && claim == nil && !fresh, BlockWithoutClaim)
	find(retained && past && !fresh, LeaseOverdue)
	find(records == 0 && !fresh && (retained && !past || is && claim != nil && !leaves), BlockWithoutRecord)
	for _, object := range s.objects {
		record, ok := object.(*ipamv1alpha1.IPAllocation)
		if !ok {
			continue
		}
		find(!s.has() && !s.unread, RecordWithoutBlock)
		kept := record.Spec.ClaimRef == nil
		find(s.has() && (record.Status.AllocatedCIDR != nth(s.at).String() || kept != retained ||
			kept && !record.ExpiresAt().Equal(held.Until) || !kept && record.Spec.ReclaimPolicy != ipamv1alpha1.ReclaimDelete), RecordMismatch)
	}
	for range records - 1 {
		find(s.has(), RecordMismatch) // a second record
	}
	return all
}
