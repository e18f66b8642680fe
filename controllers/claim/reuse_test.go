package claim

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/door"
	"github.com/kcp-ipam/ipam/controllers/internal/record"
	"github.com/kcp-ipam/ipam/controllers/internal/views"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// reuses returns a claim with the UID "later" that reuses a retained block of its name.
func reuses(options ...gen.ClaimOption) *ipamv1alpha1.IPClaim {
	return gen.Claim("c", append([]gen.ClaimOption{gen.UID("later"), gen.OnRetained(ipamv1alpha1.RetainedReuse)}, options...)...)
}

// retains binds a /28 of the class internal to a claim with the UID "former", and retains it for an hour, with its
// record.
func (s *scene) retains(name string) ledger.Block {
	s.Helper()
	former := gen.Claim(name, gen.UID("former"))
	must.Get(s.ledger.Bind(s.Context(), ledger.Request{
		Pool: "uid-of-p", Class: "internal", Length: 28, Policy: ledger.Retain,
		Holder: ledger.Holder{Claim: "former", Cluster: "tenant", Namespace: "default", Name: name},
	}))(s)
	block, _, err := s.ledger.Retained().Retain(s.Context(), "former", time.Now().Add(time.Hour))
	must.Do(s, err)
	pool := must.Get(s.poolOf(block, "tenant"))(s)
	kept := record.New(former, block, record.Place{Name: ipamv1alpha1.AllocationName("default", name), Pool: pool})
	record.Retain(kept, name, "former", block.Until)
	must.Do(s, s.tenant.Client.Create(s.Context(), kept))
	s.tenant.writes = nil
	return block
}

// ownRecord fails the test unless the record is that of the claim with the UID "later".
func (s *scene) ownRecord() {
	s.Helper()
	now := gen.Allocation("c", "p", "")
	err := s.tenant.Client.Get(s.Context(), client.ObjectKeyFromObject(now), now)
	if err != nil || now.Spec.ClaimRef == nil || now.Spec.ClaimRef.UID != "later" || now.Status.Expires != nil ||
		now.Annotations[ipamv1alpha1.AnnotationRetainedFrom] != "" {
		s.Errorf("the record is %+v, %v; want that of the later claim, without an end", now, err)
	}
}

func messageOf(status ipamv1alpha1.IPClaimStatus) string {
	allocated := meta.FindStatusCondition(status.Conditions, ipamv1alpha1.ConditionAllocated)
	if allocated == nil {
		return ""
	}
	return allocated.Reason + ": " + allocated.Message
}

// The answer to CREATE promises the retained block, and does not refuse the claim. The block stays as it is until the
// claim is stored. The reconcile of the claim then gives it the block.
func TestReuse_IsPromisedByTheAnswer(t *testing.T) {
	t.Parallel()
	s := newScene(t, allocator.Options{}, offered())
	kept := s.retains("c")
	claim := reuses(gen.OfClass("internal"), gen.Unmet(ipamv1alpha1.UnmetRefuse))
	var answer door.Answer
	for _, dry := range []bool{true, false} {
		answer = must.Get(s.Answer(t.Context(), door.Request{Cluster: "tenant", Claim: claim, DryRun: dry}))(t)
		if said := messageOf(answer.Status); answer.Refuse || answer.Status.AllocatedCIDR != "" || !strings.Contains(said, "gets it in a moment") {
			t.Errorf("dry run %t: the answer is %+v, %q; want it pending, and not refused", dry, answer, said)
		}
		if now, _, err := s.ledger.Lookup(t.Context(), "former"); err != nil || now != kept {
			t.Errorf("dry run %t: afterwards the block is %+v, %v; want %+v", dry, now, err, kept)
		}
	}
	s.stored(claim, answer)
	if after := s.reconcile("c"); after.Status.AllocatedCIDR != "10.0.0.0/28" || after.Status.AllocationID != "" {
		t.Errorf("the claim is %+v, want it bound to 10.0.0.0/28 by its UID", after.Status)
	}
	s.wantBlocks("10.0.0.0/28 bound later")
	s.ownRecord()
	if b, _, err := s.ledger.Lookup(t.Context(), "later"); err != nil || b.Policy != ledger.Delete {
		t.Errorf("the block is %+v, %v; want it freed with its claim, as the class says", b, err)
	}
}

// The reconcile gives the retained block to a claim that was stored without an answer, even if the controller is killed
// after any step. A claim that no server shows gets nothing.
func TestReuse_SurvivesAKillAfterEachStep(t *testing.T) {
	t.Parallel()
	for name, steps := range map[string]func(s *scene, kept ledger.Block){
		"from the beginning": func(*scene, ledger.Block) {},
		"after the ledger": func(s *scene, kept ledger.Block) {
			to := kept.Holder
			to.Claim = "later"
			must.Get(s.ledger.Retained().HandOver(s.Context(), kept, allocator.Successor{Holder: to}))(s)
		},
		"after another block was bound, before the record was seen": func(s *scene, kept ledger.Block) {
			to := kept.Holder
			to.Claim = "later"
			must.Get(s.ledger.Bind(s.Context(), ledger.Request{Pool: "uid-of-p", Class: "internal", Length: 28, Holder: to}))(s)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, allocator.Options{}, offered(gen.OnRetained(ipamv1alpha1.RetainedReuse)))
			kept := s.retains("c")
			claim := gen.Claim("c", gen.UID("later"), gen.OfClass("internal"))
			s.stored(claim, door.Answer{})
			steps(s, kept)
			if name == "from the beginning" {
				s.servers.claim = nil
				s.reconcile("c")
				s.wantBlocks("10.0.0.0/28 retained former")
				s.servers.claim = claim
			}
			if after := s.reconcile("c"); after.Status.AllocatedCIDR != "10.0.0.0/28" {
				t.Errorf("the claim is %+v, want it bound to 10.0.0.0/28", after.Status)
			}
			s.wantBlocks("10.0.0.0/28 bound later")
			s.ownRecord()
		})
	}
}

// slowly calls the function then after each hand-over, as if etcd had answered late.
type slowly struct {
	views.Retained
	then func()
}

func (h slowly) HandOver(ctx context.Context, b ledger.Block, to allocator.Successor) (ledger.Block, error) {
	defer h.then()
	return h.Retained.HandOver(ctx, b, to)
}

// A claim goes while the ledger gives it a retained block. The record of the former claim stays: by that record the
// release retains the block again.
func TestReuse_KeepsTheFormerRecordIfTheClaimGoes(t *testing.T) {
	t.Parallel()
	s := newScene(t, allocator.Options{}, offered(gen.OnRetained(ipamv1alpha1.RetainedReuse)))
	s.retains("c")
	s.stored(gen.Claim("c", gen.UID("later"), gen.OfClass("internal")), door.Answer{})
	s.Ledger.Retained = slowly{s.Ledger.Retained, func() { s.servers.claim = nil }}
	_, _ = s.Reconcile(t.Context(), requestIn("tenant", "c"))
	s.wantBlocks("10.0.0.0/28 bound later")
	now := gen.Allocation("c", "p", "")
	if err := s.tenant.Client.Get(t.Context(), client.ObjectKeyFromObject(now), now); err != nil || now.Spec.ClaimRef != nil {
		t.Errorf("the record is %+v, %v; want that of the former claim", now, err)
	}
}

// late calls the function then after each read of a claim, as if the server had answered late.
type late struct {
	Releases
	then func()
}

func (l late) Alive(ctx context.Context, h ledger.Holder) (*ipamv1alpha1.IPClaim, error) {
	defer l.then()
	return l.Releases.Alive(ctx, h)
}

// A claim has got the block of a former claim, and is deleted after a server has shown the claim to its pass. Its
// release retains the block by the record of the former claim. The pass goes on, and does not delete the record, which
// keeps the block.
func TestReuse_KeepsTheRecordOfABlockThatIsRetainedAgain(t *testing.T) {
	t.Parallel()
	s := newScene(t, allocator.Options{}, offered(gen.OnRetained(ipamv1alpha1.RetainedReuse)))
	kept := s.retains("c")
	s.stored(gen.Claim("c", gen.UID("later"), gen.OfClass("internal")), door.Answer{})
	to := kept.Holder
	to.Claim = "later"
	must.Get(s.ledger.Retained().HandOver(t.Context(), kept, allocator.Successor{Holder: to}))(t)
	now := gen.Allocation("c", "p", "")
	s.Releases = late{s.Releases, func() {
		testbed.Read(t, s.tenant.Client, now)
		record.Retain(now, "c", "later", kept.Until)
		must.Do(t, s.tenant.Client.Update(t.Context(), now))
	}}
	_, _ = s.Reconcile(t.Context(), requestIn("tenant", "c"))
	testbed.Read(t, s.tenant.Client, now)
	if now.AllocationID() != "later" || now.Spec.ClaimRef != nil {
		t.Errorf("the record is %+v; want that of the claim that went, retained", now)
	}
}

// A claim gets a retained block only if its policy is Reuse, and if it asks for just this block. Otherwise the answer
// and the status say how the two differ, and how the user can go on.
func TestReuse_RefusesClaimsForAnotherBlock(t *testing.T) {
	t.Parallel()
	wait := gen.OnRetained(ipamv1alpha1.RetainedWait)
	for name, tt := range map[string]struct {
		class  gen.OnRetained
		claim  *ipamv1alpha1.IPClaim
		says   []string
		refuse bool
	}{
		"nobody asks for it":     {"", gen.Claim("c", gen.OfClass("internal")), []string{"keeps 10.0.0.0/28", "until ", "delete it", "Reuse"}, false},
		"the claim overrides it": {"Reuse", gen.Claim("c", gen.OfClass("internal"), wait), []string{"delete it", "Reuse"}, false},
		"refused at once":        {"", gen.Claim("c", gen.OfClass("internal"), gen.Unmet(ipamv1alpha1.UnmetRefuse)), []string{"delete it"}, true},
		"another length":         {"Reuse", gen.Claim("c", gen.OfClass("internal"), gen.Length(29)), []string{"it is a /28, and this claim asks for a /29"}, false},
		"another address":        {"Reuse", gen.Claim("c", gen.OfClass("internal"), gen.Address("10.0.0.16/28")), []string{"asks for 10.0.0.16/28"}, false},
		"a missing class":        {"", reuses(gen.OfClass("other")), []string{"cannot reuse it", `no class "other"`}, false},
		"a pool by name":         {"", reuses(gen.FromPool("own")), []string{`by class "internal", and this claim asks by the name of a pool`}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, allocator.Options{}, offered(tt.class), readyPool("own", "10.1.0.0/24", gen.Lengths{Min: 28, Max: 28}))
			kept := s.retains("c")
			answer := s.create(tt.claim)
			stored := s.stored(tt.claim, door.Answer{})
			after := s.reconcile("c")
			for _, status := range []ipamv1alpha1.IPClaimStatus{answer.Status, after.Status} {
				said := messageOf(status)
				for _, want := range append(tt.says, string(ipamv1alpha1.ReasonAllocationRetained)) {
					if !strings.Contains(said, want) {
						t.Errorf("the claim says %q; want it to say %q", said, want)
					}
				}
			}
			if answer.Refuse != tt.refuse || stored.Status.AllocatedCIDR != "" {
				t.Errorf("refused = %t, want %t", answer.Refuse, tt.refuse)
			}
			if now, _, err := s.ledger.Lookup(t.Context(), "former"); err != nil || now != kept {
				t.Errorf("the block is %+v, %v; want it as it was, %+v", now, err, kept)
			}
		})
	}
}

// A claim that asks for exactly the retained address gets the retained block.
func TestReuse_GivesTheRetainedAddress(t *testing.T) {
	t.Parallel()
	s := newScene(t, allocator.Options{}, offered())
	s.retains("c")
	claim := reuses(gen.OfClass("internal"), gen.Address("10.0.0.0/28"))
	s.stored(claim, s.create(claim))
	if after := s.reconcile("c"); after.Status.AllocatedCIDR != "10.0.0.0/28" {
		t.Errorf("the claim is %+v, want it bound to 10.0.0.0/28", after.Status)
	}
}

// A claim does not get a block whose lease is over, because it is being released.
func TestReuse_RefusesABlockWhoseLeaseIsOver(t *testing.T) {
	t.Parallel()
	s := newScene(t, allocator.Options{}, offered())
	s.retains("c")
	s.later(2 * time.Hour)
	if said := messageOf(s.create(reuses(gen.OfClass("internal"))).Status); !strings.Contains(said, "its lease is over") {
		t.Errorf("the answer is %q, want that the lease is over", said)
	}
	s.wantBlocks("10.0.0.0/28 retained former")
}

// The ledger, and not the record, says under which name a block is retained. A claim of another name never gets the
// block.
func TestReuse_GivesNoBlockOfAnotherName(t *testing.T) {
	t.Parallel()
	s := newScene(t, allocator.Options{}, offered())
	s.retains("other")
	kept := gen.Allocation("c", "p", "10.0.0.0/28", gen.Retained())
	kept.Annotations = map[string]string{ipamv1alpha1.AnnotationRetainedFrom: "c/former"}
	must.Do(t, s.tenant.Client.Create(t.Context(), kept))
	claim := reuses(gen.OfClass("internal"))
	if answer := s.create(claim); answer.Status.AllocatedCIDR != "" {
		t.Errorf("the answer is %+v, want nothing of another name", answer.Status)
	}
	s.stored(claim, door.Answer{Status: ipamv1alpha1.IPClaimStatus{
		Phase: ipamv1alpha1.ClaimBound, AllocatedCIDR: "10.0.0.0/28", PoolRef: &ipamv1alpha1.PoolRef{Name: "p", ProjectRef: &ipamv1alpha1.ProjectRef{Name: "root:ipam"}},
		Conditions: []metav1.Condition{{Type: ipamv1alpha1.ConditionAllocated, Status: metav1.ConditionTrue, Reason: "AllocationSucceeded", LastTransitionTime: metav1.Now()}},
	}})
	_, _ = s.Reconcile(t.Context(), requestIn("tenant", "c"))
	s.wantBlocks("10.0.0.0/28 retained former")
}

// A stale cache still shows the claim without its block, and the retained record of the former claim. The block of the
// claim is not freed, because a server shows it.
func TestReuse_FreesNothingByAStaleCache(t *testing.T) {
	t.Parallel()
	for policy, recordIsGone := range map[ipamv1alpha1.RetainedPolicy]bool{"": true, ipamv1alpha1.RetainedReuse: false} {
		s := newScene(t, allocator.Options{}, offered())
		s.retains("c")
		if recordIsGone { // only the cache still shows the record
			must.Do(t, s.ledger.Release(t.Context(), "former"))
		}
		block, err := s.ledger.Bind(t.Context(), ledger.Request{ // the former leader has bound it
			Pool: "uid-of-p", Class: "internal", Length: 28, Exact: netip.MustParsePrefix("10.0.0.16/28"), Policy: ledger.Delete,
			Holder: ledger.Holder{Claim: "later", Cluster: "tenant", Namespace: "default", Name: "c"},
		})
		must.Do(t, err)
		claim := gen.Claim("c", gen.UID("later"), gen.OfClass("internal"), gen.OnRetained(policy))
		claim.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Minute).Truncate(time.Second))
		must.Do(t, s.tenant.Client.Create(t.Context(), bare(claim)))
		s.servers.claim = claim.DeepCopy()
		s.servers.claim.Status.AllocatedCIDR = block.Prefix.String()
		_, _ = s.Reconcile(t.Context(), requestIn("tenant", "c")) // the ledger shows the result
		if got, held, err := s.ledger.Lookup(t.Context(), "later"); err != nil || !held || got.Prefix != block.Prefix {
			t.Errorf("retainedPolicy %q: the claim has %s, %t, %v in the ledger; want %s, as the server shows", policy, got.Prefix, held, err, block.Prefix)
		}
	}
}

// A claim was bound before its retained record was seen. Its own block then cools under its name, perhaps for a day,
// and meanwhile the claim cannot have the retained block. The claim says so, and its reconcile fails, so that the queue
// waits longer each time.
func TestReuse_WaitsWhileABlockOfItsOwnCools(t *testing.T) {
	t.Parallel()
	s := newScene(t, allocator.Options{Cooldown: func(ledger.Block) (time.Duration, error) { return time.Hour, nil }}, offered(gen.OnRetained(ipamv1alpha1.RetainedReuse)))
	kept := s.retains("c")
	t.Cleanup(func() { unmet.remove(requestIn("tenant", "c")) })
	claim := gen.Claim("c", gen.UID("later"), gen.OfClass("internal"))
	s.stored(claim, door.Answer{})
	own := kept.Holder
	own.Claim = "later"
	must.Get(s.ledger.Bind(t.Context(), ledger.Request{Pool: "uid-of-p", Class: "internal", Length: 28, Holder: own}))(t)
	for range 2 {
		if result, err := s.Reconcile(t.Context(), requestIn("tenant", "c")); err == nil {
			t.Errorf("Reconcile = %+v; want an error, after which the queue waits longer each time", result)
		}
	}
	now := gen.Claim("c")
	if err := s.tenant.Client.Get(t.Context(), client.ObjectKeyFromObject(now), now); err != nil || !strings.Contains(messageOf(now.Status), "cannot be taken over now") {
		t.Errorf("the claim says %q, %v", messageOf(now.Status), err)
	}
}
