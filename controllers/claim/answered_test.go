package claim

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/door"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// The reconcile of an answered claim writes the claim's record. It does not write the claim or the ledger, and asks no
// server.
func TestReconcile_WritesTheRecordOfAnAnsweredClaim(t *testing.T) {
	t.Parallel()
	s := newScene(t, allocator.Options{}, offered())
	claim := gen.Claim("c", gen.OfClass("internal"))
	answer := s.create(claim)
	before := s.stored(claim, answer)
	s.servers.claim = nil // no server is asked
	spent := s.Ledger.Blocks.Revision()
	if after := s.reconcile("c"); after.ResourceVersion != before.ResourceVersion {
		t.Errorf("the claim was written; it is %+v, was %+v", after.Status, before.Status)
	}
	if diff := cmp.Diff([]string{"create *v1alpha1.IPAllocation"}, s.tenant.writes); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
	s.wantBlocks("10.0.0.0/28 bound " + id(answer))
	if now := s.Ledger.Blocks.Revision(); now != spent {
		t.Errorf("the ledger was written: it is at %d, was at %d", now, spent)
	}
	record := gen.Allocation("c", "p", "")
	if err := s.tenant.Client.Get(t.Context(), client.ObjectKeyFromObject(record), record); err != nil || record.Status.AllocatedCIDR != "10.0.0.0/28" ||
		record.Spec.ClaimRef.UID != claim.UID || record.Spec.ClaimRef.AllocationID != answer.Status.AllocationID {
		t.Errorf("the record is %+v, %v; want that of 10.0.0.0/28", record, err)
	}
}

// A CREATE is forgotten once the cache shows the record of its claim, even if the answer to the write of that record
// was lost.
func TestReconcile_ForgetsTheCreateOfARecordedClaim(t *testing.T) {
	t.Parallel()
	s := newScene(t, allocator.Options{}, offered())
	claim := gen.Claim("c", gen.OfClass("internal"))
	answer := s.create(claim)
	s.stored(claim, answer)
	s.reconcile("c")
	holder := ledger.Holder{Claim: ledger.ClaimID(id(answer)), Cluster: "tenant", Namespace: "default", Name: "c"}
	must.Do(t, s.Answers.Begin(holder)) // as before the write
	s.Answers.Stored(holder)
	if s.reconcile("c"); s.Answers.Unrecorded(holder) {
		t.Error("the CREATE is remembered of a claim whose record is there")
	}
}

// While the ledger is away, a claim that was just answered stays Ready. An older claim stays Ready at the first fault.
// A second fault sets Ready to False, and the claim still shows its block.
func TestReconcile_ShowsOnlyALastingFaultOnAnAnsweredClaim(t *testing.T) {
	t.Parallel()
	s := newScene(t, allocator.Options{}, offered())
	claim := gen.Claim("c", gen.OfClass("internal"))
	before := s.stored(claim, s.create(claim))
	must.Do(t, s.ledger.Close())
	look := func() *ipamv1alpha1.IPClaim {
		if _, err := s.Reconcile(t.Context(), requestIn("tenant", "c")); err == nil {
			t.Fatal("a reconcile without the ledger succeeds; want an error, so that it is tried again")
		}
		now := gen.Claim("c")
		must.Do(t, s.tenant.Client.Get(t.Context(), client.ObjectKeyFromObject(now), now))
		return now
	}
	unwritten := func() {
		t.Helper()
		if after := look(); after.ResourceVersion != before.ResourceVersion {
			t.Errorf("the claim was written; it is %+v, was %+v", after.Status, before.Status)
		}
	}
	unwritten()
	unwritten()
	s.memory.found(claim.UID)
	s.later(unfinished + time.Second)
	unwritten()
	if after := look(); !meta.IsStatusConditionFalse(after.Status.Conditions, ipamv1alpha1.ConditionReady) || after.Status.AllocatedCIDR != before.Status.AllocatedCIDR {
		t.Errorf("the claim shows %+v; want its block, and Ready False", after.Status)
	}
}

// A new leader does not know which CREATEs the former leader answered. It writes the record of a claim only if a server
// shows the claim with the block.
func TestReconcile_ReadsAClaimLiveIfAnotherLeaderAnsweredIt(t *testing.T) {
	t.Parallel()
	s := newScene(t, allocator.Options{}, offered())
	claim := gen.Claim("c", gen.OfClass("internal"))
	answer := s.create(claim)
	stored := s.stored(claim, answer)
	s.Answers = nil
	without := stored.DeepCopy()
	without.Status = ipamv1alpha1.IPClaimStatus{}
	for _, now := range []*ipamv1alpha1.IPClaim{nil, without} {
		s.servers.claim = now
		s.reconcile("c")
		if len(s.tenant.writes) > 0 {
			t.Errorf("written is %q, want nothing: a server shows %+v", s.tenant.writes, now)
		}
	}
	s.servers.claim = stored
	s.reconcile("c")
	if diff := cmp.Diff([]string{"create *v1alpha1.IPAllocation"}, s.tenant.writes); diff != "" {
		t.Errorf("written once a server shows the claim (-want +got):\n%s", diff)
	}
	s.wantBlocks("10.0.0.0/28 bound " + id(answer))
}

// A kcp that was restored from an older copy has neither the claim nor its record. The cache may learn of the missing
// record first. The record is not written again before a server shows the claim: a new record would pass for proof that
// this kcp knew the claim, and the block would be freed.
func TestReconcile_WritesNoRecordWhileNoServerShowsTheClaim(t *testing.T) {
	t.Parallel()
	s := newScene(t, allocator.Options{}, offered())
	claim := gen.Claim("c", gen.OfClass("internal"))
	answer := s.create(claim)
	s.stored(claim, answer)
	s.reconcile("c")
	s.reconcile("c") // which sees the record
	record := gen.Allocation("c", "p", "")
	must.Do(t, s.tenant.Client.Delete(t.Context(), record))
	shown := s.servers.claim
	s.servers.claim, s.tenant.writes = nil, nil
	s.reconcile("c")
	if len(s.tenant.writes) != 0 {
		t.Errorf("written is %q, want nothing: no server shows the claim", s.tenant.writes)
	}
	s.wantBlocks("10.0.0.0/28 bound " + id(answer))

	s.servers.claim = shown
	s.reconcile("c")
	if diff := cmp.Diff([]string{"create *v1alpha1.IPAllocation"}, s.tenant.writes); diff != "" {
		t.Errorf("written once a server shows the claim (-want +got):\n%s", diff)
	}
}

// A claim is written, and the server does not know it: the claim was deleted, or the server was restored from an older
// copy. The claim is reported as missed, with its last state. The report comes only when the cache had time to show a
// deletion.
func TestReconcile_ReportsAClaimUnknownToTheServerOnlyAfterTheCacheLag(t *testing.T) {
	t.Parallel()
	s := newScene(t, allocator.Options{}, offered())
	before := s.stored(gen.Claim("c", gen.OfClass("internal")), door.Answer{})
	s.tenant.denies = true
	s.memory.clock = s.now
	s.servers.gone = true
	s.reconcile("c")
	if len(s.servers.missed) > 0 {
		t.Errorf("said to be missed is %q; want nothing, as the cache is about to tell of a deletion", s.servers.missed)
	}
	s.later(cacheLag)
	s.reconcile("c")
	if diff := cmp.Diff([]string{"c " + before.ResourceVersion + " "}, s.servers.missed); diff != "" {
		t.Errorf("said to be missed (-want +got):\n%s", diff)
	}
}

// A server that does not know status.allocationID stores the claim without it. The claim keeps its block. The block
// passes to the claim's UID, but only once a server shows the claim.
func TestReconcile_HandsTheBlockOfALostIDToTheClaimsUID(t *testing.T) {
	t.Parallel()
	s := newScene(t, allocator.Options{}, offered())
	claim := gen.Claim("c", gen.OfClass("internal"))
	answer := s.create(claim)
	held := "10.0.0.0/28 bound " + id(answer)
	answer.Status.AllocationID = ""
	s.stored(claim, answer)
	shown := s.servers.claim
	s.servers.claim = nil
	s.reconcile("c")
	s.wantBlocks(held)
	s.servers.claim = shown
	if after := s.reconcile("c"); after.Status.AllocatedCIDR != "10.0.0.0/28" || after.Status.AllocationID != "" {
		t.Errorf("the claim is %+v, want it bound to 10.0.0.0/28 by its UID", after.Status)
	}
	s.wantBlocks("10.0.0.0/28 bound uid-of-c")
}

// A claim is stored with a copy of the status of the former claim of its name. The new claim keeps the block that is
// bound to the copied allocation ID. The block is never free in between.
func TestReconcile_KeepsTheBlockOfACopiedID(t *testing.T) {
	t.Parallel()
	s := newScene(t, allocator.Options{}, offered())
	former := gen.Claim("c", gen.UID("former"), gen.OfClass("internal"))
	answer := s.create(former)
	s.stored(former, answer)
	s.reconcile("c")
	must.Do(t, s.tenant.Client.Delete(t.Context(), bare(former)))
	later := gen.Claim("c", gen.UID("later"), gen.OfClass("internal"))
	s.stored(later, answer)
	s.reconcile("c")
	s.wantBlocks("10.0.0.0/28 bound " + id(answer))
	record := gen.Allocation("c", "p", "")
	must.Do(t, s.tenant.Client.Get(t.Context(), client.ObjectKeyFromObject(record), record))
	if record.Spec.ClaimRef == nil || record.Spec.ClaimRef.UID != "later" || record.AllocationID() != answer.Status.AllocationID {
		t.Errorf("the record names %+v, want the later claim", record.Spec.ClaimRef)
	}
}

// The reconcile binds a claim that was stored without the answer to its CREATE. If the claim asks for the address of
// that answer, it waits until the address is free, and says when that is.
func TestReconcile_BindsAfterALateAnswer(t *testing.T) {
	t.Parallel()
	s := newScene(t, allocator.Options{}, offered())
	claim := gen.Claim("c", gen.OfClass("internal"))
	late := s.create(claim)
	s.stored(claim, door.Answer{})
	if after := s.reconcile("c"); after.Status.AllocatedCIDR != "10.0.0.16/28" || after.Status.AllocationID != "" {
		t.Errorf("the claim has %+v, want 10.0.0.16/28 by its UID", after.Status)
	}
	s.wantBlocks("10.0.0.0/28 bound "+id(late), "10.0.0.16/28 bound uid-of-c")
	exact := gen.Claim("exact", gen.OfClass("internal"), gen.Address("10.0.0.32/28"))
	late = s.create(exact)
	s.stored(exact, door.Answer{})
	t.Cleanup(func() { unmet.remove(requestIn("tenant", "exact")) })
	if after := s.reconcile("exact"); after.Status.AllocatedCIDR != "" || !strings.HasPrefix(messageOf(after.Status), string(ipamv1alpha1.ReasonAddressInUse)) ||
		!strings.Contains(messageOf(after.Status), "was not stored, and is free at ") {
		t.Errorf("the claim says %q with %s; want that the address is in use, and until when", messageOf(after.Status), after.Status.AllocatedCIDR)
	}
	must.Do(t, s.ledger.Release(t.Context(), ledger.ClaimID(id(late))))
	if after := s.reconcile("exact"); after.Status.AllocatedCIDR != "10.0.0.32/28" {
		t.Errorf("the claim has %+v once the address is free, want that", after.Status)
	}
}

// Block and record of an answered claim have the reclaim policy of the claim, or else that of its class.
func TestReconcile_KeepsThePolicyOfAnAnsweredClaim(t *testing.T) {
	t.Parallel()
	const keep, free = ipamv1alpha1.ReclaimRetain, ipamv1alpha1.ReclaimDelete
	for _, tt := range []struct{ class, claim, want ipamv1alpha1.ReclaimPolicy }{
		{keep, "", keep}, {free, "", free}, {free, keep, keep}, {keep, free, free},
	} {
		s := newScene(t, allocator.Options{}, offered(gen.Reclaim(tt.class)))
		claim := gen.Claim("c", gen.OfClass("internal"), gen.Reclaim(tt.claim))
		answer := s.create(claim)
		s.stored(claim, answer)
		s.reconcile("c")
		block, _, err := s.ledger.Lookup(t.Context(), ledger.ClaimID(id(answer)))
		if err != nil || block.Policy != ledger.ReclaimPolicy(tt.want) {
			t.Errorf("class %q, claim %q: the block is kept with %q, %v; want %s", tt.class, tt.claim, block.Policy, err, tt.want)
		}
		record := gen.Allocation("c", "p", "")
		must.Do(t, s.tenant.Client.Get(t.Context(), client.ObjectKeyFromObject(record), record))
		if record.Spec.ReclaimPolicy != tt.want {
			t.Errorf("class %q, claim %q: the record says %q, want %s", tt.class, tt.claim, record.Spec.ReclaimPolicy, tt.want)
		}
	}
}

// An event tells the first refusal of a claim, even if the answer to CREATE has set the refusal. The claim is not
// written.
func TestReconcile_EmitsOneEventForARefusalInTheAnswer(t *testing.T) {
	t.Parallel()
	s := newScene(t, allocator.Options{}, offered())
	t.Cleanup(func() { unmet.remove(requestIn("tenant", "refused")) })
	claim := gen.Claim("refused", gen.OfClass("none"))
	s.stored(claim, s.create(claim))
	for range 3 {
		s.reconcile("refused")
	}
	if n := len(s.tenant.Events.Events); n != 1 {
		t.Errorf("%d events, want one", n)
	}
	if len(s.tenant.writes) != 0 {
		t.Errorf("written is %q, want nothing: the claim shows its refusal", s.tenant.writes)
	}
}

// An answered claim keeps its block if a retained record of its name comes to light. The claim is not Ready then.
func TestReconcile_KeepsAnAnsweredBlockBesideARetainedRecord(t *testing.T) {
	t.Parallel()
	s := newScene(t, allocator.Options{}, offered())
	claim := gen.Claim("beside", gen.OfClass("internal"))
	answer := s.create(claim)
	s.stored(claim, answer)
	kept := gen.Allocation("beside", "p", "10.0.0.64/28", gen.Retained())
	kept.Annotations = map[string]string{ipamv1alpha1.AnnotationRetainedFrom: "beside/uid-of-former"}
	must.Do(t, s.tenant.Client.Create(t.Context(), kept))
	t.Cleanup(func() { unmet.remove(requestIn("tenant", "beside")) })
	after := s.reconcile("beside")
	s.wantBlocks("10.0.0.0/28 bound " + id(answer))
	if after.Status.AllocatedCIDR != "10.0.0.0/28" || after.Status.Phase != ipamv1alpha1.ClaimBound || meta.IsStatusConditionTrue(after.Status.Conditions, ipamv1alpha1.ConditionReady) {
		t.Errorf("the claim shows %+v, want it bound to 10.0.0.0/28 and not ready", after.Status)
	}
}

// The ledger learns the reclaim policy of a claim even while its pool cannot be named, because the pool's workspace has
// gone.
func TestReconcile_KeepsThePolicyOfAClaimWhosePoolHasNoPath(t *testing.T) {
	t.Parallel()
	s := newScene(t, allocator.Options{}, offered())
	must.Get(s.ledger.Pools().Register(t.Context(), ledger.Pool{
		ID: "shared", Cluster: "gone", Name: "shared", CIDR: netip.MustParsePrefix("10.1.0.0/24"),
	}))(t)
	claim := gen.Claim("c", gen.Reclaim(ipamv1alpha1.ReclaimRetain))
	holder := ledger.Holder{Claim: ledger.ClaimID(claim.UID), Cluster: "tenant", Namespace: claim.Namespace, Name: claim.Name}
	must.Get(s.ledger.Bind(t.Context(), ledger.Request{Pool: "shared", Holder: holder, Length: 28, Policy: ledger.Delete}))(t)
	s.stored(claim, door.Answer{Status: shows("10.1.0.0/28")})
	if _, err := s.Reconcile(t.Context(), requestIn("tenant", "c")); err == nil {
		t.Error("the reconcile ends well; want it tried again, for the name of the pool")
	}
	block, _, err := s.ledger.Lookup(t.Context(), holder.Claim)
	if err != nil || block.Policy != ledger.Retain {
		t.Errorf("the block is kept with %q, %v; want the Retain of its claim", block.Policy, err)
	}
}
