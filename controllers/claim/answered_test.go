package claim

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/door"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// The reconcile finds what was answered: it writes the record and nothing else.
func TestReconcile_OfAnAnsweredClaim(t *testing.T) {
	t.Parallel()
	s := newScene(t, allocator.Options{}, offered())
	claim := gen.Claim("c", gen.OfClass("internal"))
	before := s.stored(claim, s.create(claim))
	if after := s.reconcile("c"); after.ResourceVersion != before.ResourceVersion {
		t.Errorf("the claim was written; it is %+v, was %+v", after.Status, before.Status)
	}
	if diff := cmp.Diff([]string{"create *v1alpha1.IPAllocation"}, s.tenant.writes); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
	s.wantBlocks("10.0.0.0/28 bound uid-of-c")
	record := gen.Allocation("c", "p", "")
	if err := s.tenant.Client.Get(t.Context(), client.ObjectKeyFromObject(record), record); err != nil || record.Status.AllocatedCIDR != "10.0.0.0/28" || record.Spec.ClaimRef.UID != claim.UID {
		t.Errorf("the record is %+v, %v; want that of 10.0.0.0/28", record, err)
	}
}

// A fault of the ledger does not make a claim that has just been answered look unready, nor does a single one later. One
// that lasts does.
func TestReconcile_OfAnAnsweredClaimWithoutTheLedger(t *testing.T) {
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

// A reservation that was answered twice is the block of a claim that is there with it, by the
// word of a server.
func TestReconcile_OfAReservationAnsweredTwice(t *testing.T) {
	t.Parallel()
	s := newScene(t, allocator.Options{}, offered())
	claim := gen.Claim("c", gen.OfClass("internal"))
	s.create(claim)
	s.known(claim)
	s.later(failed + time.Second)
	stored := s.stored(claim, s.create(claim))
	without := stored.DeepCopy()
	without.Status = ipamv1alpha1.IPClaimStatus{}
	for _, now := range []*ipamv1alpha1.IPClaim{nil, without} {
		s.servers.claim = now
		s.reconcile("c")
		s.wantBlocks("10.0.0.0/28 reserved " + string(promise.Of("tenant", claim)))
	}
	s.servers.claim = stored
	s.reconcile("c")
	s.wantBlocks("10.0.0.0/28 bound uid-of-c")
}

// A kcp that was restored from an older copy has neither the claim nor its record. The cache may
// learn of the record first. It is not written again: that would pass for proof that this kcp knew
// the claim, and its block would be freed.
func TestReconcile_OfAClaimThatNoServerShows(t *testing.T) {
	t.Parallel()
	s := newScene(t, allocator.Options{}, offered())
	claim := gen.Claim("c", gen.OfClass("internal"))
	s.stored(claim, s.create(claim))
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
	s.wantBlocks("10.0.0.0/28 bound uid-of-c")

	s.servers.claim = shown
	s.reconcile("c")
	if diff := cmp.Diff([]string{"create *v1alpha1.IPAllocation"}, s.tenant.writes); diff != "" {
		t.Errorf("written once a server shows the claim (-want +got):\n%s", diff)
	}
}

// A claim that the server does not know when it is written may have been deleted, or be newer than a
// server that was restored from an older copy. Only what was seen of the claim tells them apart.
func TestReconcile_OfAClaimThatTheServerDenies(t *testing.T) {
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

// A claim that was stored without its answer gets the block that was reserved for it, and no other
// one.
func TestReconcile_OfALateAnswer(t *testing.T) {
	t.Parallel()
	s := newScene(t, allocator.Options{}, offered())
	claim := gen.Claim("c", gen.OfClass("internal"))
	s.create(claim)
	s.stored(claim, door.Answer{})
	s.known(claim)
	s.reconcile("c")
	s.wantBlocks("10.0.0.0/28 reserved " + string(promise.Of("tenant", claim))) // it may be that of a former claim
	s.later(claiming + time.Second)
	if after := s.reconcile("c"); after.Status.AllocatedCIDR != "10.0.0.0/28" {
		t.Errorf("the claim has %+v, want 10.0.0.0/28", after.Status)
	}
	s.wantBlocks("10.0.0.0/28 bound uid-of-c")
}

// A reservation that a failed CREATE has left serves a later claim of another reclaim policy. Its block
// is kept by the word of that claim, else of its class.
func TestReconcile_OfAReservationOfAnotherPolicy(t *testing.T) {
	t.Parallel()
	const keep, free = ipamv1alpha1.ReclaimRetain, ipamv1alpha1.ReclaimDelete
	for _, tt := range []struct {
		name                       string
		class, failed, claim, want ipamv1alpha1.ReclaimPolicy
	}{
		{"the class retains, and the failed CREATE did not", keep, free, "", keep},
		{"the class deletes, and the failed CREATE did not", free, keep, "", free},
		{"the claim retains", free, "", keep, keep},
		{"the claim deletes", keep, "", free, free},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, allocator.Options{}, offered(gen.Reclaim(tt.class)))
			failing := gen.Claim("c", gen.OfClass("internal"), gen.Reclaim(tt.failed))
			s.create(failing)
			s.known(failing)
			s.later(failed + time.Second)
			claim := gen.Claim("c", gen.OfClass("internal"), gen.Reclaim(tt.claim))
			s.stored(claim, s.create(claim))
			s.reconcile("c")
			block, _, err := s.ledger.Lookup(t.Context(), ledger.ClaimID(claim.UID))
			if err != nil || block.Policy != ledger.ReclaimPolicy(tt.want) {
				t.Errorf("the block is kept with %q, %v; want %s", block.Policy, err, tt.want)
			}
			record := gen.Allocation("c", "p", "")
			must.Do(t, s.tenant.Client.Get(t.Context(), client.ObjectKeyFromObject(record), record))
			if record.Spec.ReclaimPolicy != tt.want {
				t.Errorf("the record says %q, want %s", record.Spec.ReclaimPolicy, tt.want)
			}
		})
	}
}

// The first refusal is told by an event and counted, also if the claim came with it.
func TestReconcile_TellsARefusalOfTheDoor(t *testing.T) {
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

// A retained record may come to light after the claim was told its block. The claim keeps that.
func TestReconcile_OfAnAnsweredClaimBesideARetainedRecord(t *testing.T) {
	t.Parallel()
	s := newScene(t, allocator.Options{}, offered())
	claim := gen.Claim("beside", gen.OfClass("internal"))
	s.stored(claim, s.create(claim))
	kept := gen.Allocation("beside", "p", "10.0.0.64/28", gen.Retained())
	kept.Annotations = map[string]string{ipamv1alpha1.AnnotationRetainedFrom: "beside/uid-of-former"}
	must.Do(t, s.tenant.Client.Create(t.Context(), kept))
	t.Cleanup(func() { unmet.remove(requestIn("tenant", "beside")) })
	after := s.reconcile("beside")
	s.wantBlocks("10.0.0.0/28 bound uid-of-beside")
	if after.Status.AllocatedCIDR != "10.0.0.0/28" || after.Status.Phase != ipamv1alpha1.ClaimBound || meta.IsStatusConditionTrue(after.Status.Conditions, ipamv1alpha1.ConditionReady) {
		t.Errorf("the claim shows %+v, want it bound to 10.0.0.0/28 and not ready", after.Status)
	}
}

// The ledger learns the reclaim policy of a claim also while its pool cannot be named, as the workspace has gone that owns it.
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
