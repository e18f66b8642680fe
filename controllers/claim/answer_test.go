package claim

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/door"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// The answer to a CREATE is the final status of the claim, and its block is in the ledger. A later CREATE of the name
// gets another block.
func TestAnswer_IsTheFinalStatus(t *testing.T) {
	t.Parallel()
	s := newScene(t, allocator.Options{}, offered(gen.Default()))
	claim := gen.Claim("c")
	claim.Status.AllocatedCIDR = "192.0.2.0/28" // whatever the user sends
	answer := s.create(claim)
	s.wantBlocks("10.0.0.0/28 bound " + id(answer))
	if !promise.Fits(answer.Status.AllocationID, "tenant", "default", "c") {
		t.Errorf("the allocation ID is %q, want one that was made for this name", id(answer))
	}
	allocated := meta.FindStatusCondition(answer.Status.Conditions, ipamv1alpha1.ConditionAllocated)
	ready := meta.FindStatusCondition(answer.Status.Conditions, ipamv1alpha1.ConditionReady)
	if allocated == nil || allocated.Status != metav1.ConditionTrue || ready == nil || ready.Status != metav1.ConditionTrue || len(answer.Status.Conditions) != 2 {
		t.Fatalf("conditions are %+v, want Allocated and Ready", answer.Status.Conditions)
	}
	block, _, err := s.ledger.Lookup(t.Context(), ledger.ClaimID(id(answer)))
	if err != nil || !allocated.LastTransitionTime.Time.Equal(block.BoundAt) {
		t.Errorf("allocated at %s, %v; want %s, when it was", allocated.LastTransitionTime, err, block.BoundAt)
	}
	first := id(answer)
	answer.Status.Conditions, answer.Status.AllocationID = nil, ""
	want := door.Answer{Status: ipamv1alpha1.IPClaimStatus{
		Phase: ipamv1alpha1.ClaimBound, AllocatedCIDR: "10.0.0.0/28", ClassName: "internal", IPFamily: ipamv1alpha1.IPv4,
		PoolRef:            &ipamv1alpha1.PoolRef{Name: "p", ProjectRef: &ipamv1alpha1.ProjectRef{Name: "root:ipam"}},
		BoundAllocationRef: &ipamv1alpha1.LocalRef{Name: ipamv1alpha1.AllocationName("default", "c")},
		ObservedGeneration: 1,
		Requested:          "/28",
	}}
	if diff := cmp.Diff(want, answer); diff != "" {
		t.Errorf("the answer (-want +got):\n%s", diff)
	}
	s.later(time.Minute)
	if other := s.create(gen.Claim("c")); other.Status.AllocatedCIDR != "10.0.0.16/28" || id(other) == first {
		t.Errorf("another CREATE of the name is answered with %s and ID %s, want 10.0.0.16/28 and another than %s", other.Status.AllocatedCIDR, id(other), first)
	}
}

// A dry run gets the same answer as the CREATE, and takes nothing.
func TestAnswer_DryRunTakesNothing(t *testing.T) {
	t.Parallel()
	s := newScene(t, allocator.Options{}, offered())
	claim := gen.Claim("c", gen.OfClass("internal"))
	preview := must.Get(s.Answer(t.Context(), door.Request{Cluster: "tenant", Claim: claim, DryRun: true}))(t)
	s.wantBlocks()
	real := s.create(claim)
	for _, status := range []*ipamv1alpha1.IPClaimStatus{&preview.Status, &real.Status} {
		status.AllocationID = ""
		for i := range status.Conditions {
			status.Conditions[i].LastTransitionTime = metav1.Time{}
		}
	}
	if diff := cmp.Diff(real, preview); diff != "" {
		t.Errorf("the preview differs from the answer (-answer +preview):\n%s", diff)
	}
}

// A claim that gets no block is told why. Its CREATE fails if the claim's unmetPolicy is Refuse. A claim without an
// unmetPolicy has that of its class. The CREATE enters no waiting list.
func TestAnswer_RefusesByTheUnmetPolicy(t *testing.T) {
	t.Parallel()
	const wait, refuse = ipamv1alpha1.UnmetWait, ipamv1alpha1.UnmetRefuse
	for _, tt := range []struct {
		name    string
		claim   *ipamv1alpha1.IPClaim
		own     ipamv1alpha1.UnmetPolicy
		ofClass ipamv1alpha1.UnmetPolicy
		reason  ipamv1alpha1.Reason
		refuse  bool
	}{
		{"no class", gen.Claim("c", gen.OfClass("none")), "", refuse, ipamv1alpha1.ReasonClassNotFound, false},
		{"no class, and it refuses to wait", gen.Claim("c", gen.OfClass("none")), refuse, "", ipamv1alpha1.ReasonClassNotFound, true},
		{"too large", gen.Claim("c", gen.OfClass("internal"), gen.Length(23)), "", "", ipamv1alpha1.ReasonPoolExhausted, false},
		{"too large, by a class that refuses to wait", gen.Claim("c", gen.OfClass("internal"), gen.Length(23)), "", refuse, ipamv1alpha1.ReasonPoolExhausted, true},
		{"another family, by such a class", gen.Claim("c", gen.OfClass("internal"), gen.Family(ipamv1alpha1.IPv6)), "", refuse, ipamv1alpha1.ReasonFamilyMismatch, true},
		{"too long, by such a class", gen.Claim("c", gen.OfClass("internal"), gen.Length(33)), "", refuse, ipamv1alpha1.ReasonPrefixLengthRejected, true},
		{"of another provisioner, by such a class", gen.Claim("c", gen.OfClass("elsewhere")), "", refuse, ipamv1alpha1.ReasonUnknownProvisioner, true},
		{"too large, by such a class, and it waits", gen.Claim("c", gen.OfClass("internal"), gen.Length(23)), wait, refuse, ipamv1alpha1.ReasonPoolExhausted, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			platform := offered(gen.Unmet(tt.ofClass))
			platform = append(platform, gen.Class("elsewhere", gen.Unmet(tt.ofClass), gen.Provisioner("example.com/other")))
			s := newScene(t, allocator.Options{}, platform)
			tt.claim.Spec.UnmetPolicy = tt.own
			waits, answer := noteWaits(&s.Ledger), s.create(tt.claim)
			says := meta.FindStatusCondition(answer.Status.Conditions, ipamv1alpha1.ConditionAllocated)
			if says == nil || says.Reason != string(tt.reason) || answer.Status.Phase != ipamv1alpha1.ClaimPending || answer.Status.ObservedGeneration != 1 {
				t.Errorf("answered %+v, want Pending with reason %s", answer.Status, tt.reason)
			}
			if answer.Refuse != tt.refuse {
				t.Errorf("Refuse = %t, want %t", answer.Refuse, tt.refuse)
			}
			s.wantBlocks()
			if n := waits.count("uid-of-p"); n != 0 {
				t.Errorf("%d claims wait at the pool, want none", n)
			}
		})
	}
}

// While the cache shows a claim or a record of its name, a CREATE takes no block, and its answer shows none.
func TestAnswer_GivesNoBlockWhereTheNameWasUsed(t *testing.T) {
	t.Parallel()
	there := gen.Claim("c")
	there.Status.Phase, there.Status.AllocatedCIDR = ipamv1alpha1.ClaimBound, "10.0.0.0/28"
	kept := gen.Allocation("c", "p", "10.0.0.0/28", gen.Retained())
	kept.Annotations = map[string]string{ipamv1alpha1.AnnotationRetainedFrom: "c/uid-of-c"}
	for _, tt := range []struct {
		name   string
		object client.Object
		reason ipamv1alpha1.Reason // none: Answer returns an error
		refuse bool                // whether the answer refuses; else the API server says that the name is taken
	}{
		// The claim may be gone already, and its block about to be freed.
		{"a claim", there, ipamv1alpha1.ReasonError, false},
		{"a retained record", kept, ipamv1alpha1.ReasonAllocationRetained, true},
		{"the record of a claim that is gone", gen.Allocation("c", "p", "10.0.0.0/28"), "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, allocator.Options{}, offered(gen.Unmet(ipamv1alpha1.UnmetRefuse)), tt.object)
			claim := gen.Claim("c", gen.OfClass("internal"))
			if tt.object == there {
				claim.Spec.UnmetPolicy = ipamv1alpha1.UnmetRefuse
			}
			answer, err := s.Answer(t.Context(), door.Request{Cluster: "tenant", Claim: claim})
			if (err != nil) != (tt.reason == "") {
				t.Fatalf("Answer: %v, want an error: %t", err, tt.reason == "")
			}
			says := meta.FindStatusCondition(answer.Status.Conditions, ipamv1alpha1.ConditionAllocated)
			if err == nil && (says == nil || says.Reason != string(tt.reason)) || answer.Status.AllocatedCIDR != "" || answer.Refuse != tt.refuse {
				t.Errorf("answered %+v, want reason %q, no block, Refuse %t", answer, tt.reason, tt.refuse)
			}
			s.wantBlocks()
		})
	}
}

// A CREATE in a workspace that is not engaged, or that gives up the export, gets an error and takes nothing.
func TestAnswer_FailsInAWorkspaceThatIsNotServed(t *testing.T) {
	t.Parallel()
	s := newScene(t, allocator.Options{}, offered())
	ask := func(cluster ledger.ClusterName) error {
		_, err := s.Answer(t.Context(), door.Request{Cluster: cluster, Claim: gen.Claim("c", gen.OfClass("internal"))})
		return err
	}
	if err := ask("unknown"); err == nil {
		t.Error("a workspace that is not engaged is answered")
	}
	leaving := binding()
	leaving.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	s.Directory.Seen("endpoint", leaving)
	if err := ask("tenant"); err == nil {
		t.Error("a workspace that gives up the export is answered")
	}
	s.wantBlocks()
}

// If two workspaces show the same path, that path admits neither of them to a pool. Both still get blocks of their own
// pools, and by classes that are open to all.
func TestAnswer_ServesAWorkspaceIfAnotherShowsItsPath(t *testing.T) {
	t.Parallel()
	own, admits := readyPool("own", "10.1.0.0/24"), readyPool("admits", "10.2.0.0/24", gen.Consumers{"root:tenant"})
	s := newScene(t, allocator.Options{}, append(offered(), admits), own)
	s.Ledger.Recovery.Trust(must.Get(s.ledger.Pools().Register(t.Context(), ledger.Pool{
		ID: ledger.PoolID(own.UID), Name: "own", Cluster: "tenant", Space: ledger.SpaceID(own.UID), CIDR: netip.MustParsePrefix("10.1.0.0/24"),
	}))(t).ID)
	s.Directory.Seen("endpoint", testbed.Binding("forger", "root:tenant"))
	if path := s.Directory.Workspace("tenant").Path; path != "" {
		t.Fatalf("the workspace is known by %q, want by none", path)
	}
	for name, tt := range map[string]struct {
		claim *ipamv1alpha1.IPClaim
		cidr  string
	}{
		"by a class":       {gen.Claim("a", gen.OfClass("internal")), "10.0.0.0/28"},
		"from its own":     {gen.Claim("b", gen.FromPool("own"), gen.Length(28)), "10.1.0.0/28"},
		"admitted by path": {gen.Claim("c", gen.FromPoolIn("root:ipam", "admits"), gen.Length(28)), ""},
	} {
		tt.claim.Spec.UnmetPolicy = ipamv1alpha1.UnmetRefuse
		answer, err := s.Answer(t.Context(), door.Request{Cluster: "tenant", Claim: tt.claim})
		if err != nil || answer.Status.AllocatedCIDR != tt.cidr {
			t.Errorf("%s: Answer = %+v, %v; want the block %q", name, answer, err, tt.cidr)
		}
	}
}

// Answer ends within its limit, though its caller would wait longer.
func TestAnswer_EndsInTime(t *testing.T) {
	t.Parallel()
	s := newScene(t, allocator.Options{Frozen: true}, offered())
	s.limits = served
	s.Compare = func(ctx context.Context, _ ledger.PoolID) (bool, error) {
		<-ctx.Done()
		return false, ctx.Err()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*served.answer)
	defer cancel()
	answer, err := s.Answer(ctx, door.Request{Cluster: "tenant", Claim: gen.Claim("c", gen.OfClass("internal"))})
	if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
		t.Errorf("Answer = %+v, %v of a pool that is compared for ever; want it to end by itself", answer, err)
	}
}

// Until the ledger was compared with the published records of a pool, the pool gives no block: Answer fails. A pool
// that has lost changes is frozen, and gives no block either.
func TestAnswer_GivesNoBlockBeforeTheLedgerIsCompared(t *testing.T) {
	t.Parallel()
	s := newScene(t, allocator.Options{Frozen: true}, offered())
	request := door.Request{Cluster: "tenant", Claim: gen.Claim("c", gen.OfClass("internal"))}
	if answer, err := s.Answer(t.Context(), request); err == nil {
		t.Errorf("Answer = %+v while nobody has compared, want an error", answer)
	}
	s.Compare = func(_ context.Context, id ledger.PoolID) (bool, error) {
		s.ledger.Recovery().Trust(id)
		return true, nil
	}
	if answer := s.create(request.Claim); answer.Status.AllocatedCIDR != "10.0.0.0/28" {
		t.Errorf("answered %+v by a ledger that is whole, want 10.0.0.0/28", answer)
	}
	must.Do(t, s.ledger.Recovery().Freeze(t.Context(), "uid-of-p", time.Time{}))
	answer := s.create(gen.Claim("d", gen.OfClass("internal")))
	says := meta.FindStatusCondition(answer.Status.Conditions, ipamv1alpha1.ConditionAllocated)
	if says == nil || !strings.Contains(says.Message, "frozen") || answer.Status.Phase != ipamv1alpha1.ClaimPending {
		t.Errorf("answered %+v by a ledger that has lost changes, want Pending, as the pool is frozen", answer)
	}
}

// The ledger does not answer. A claim by a class with the unmetPolicy Refuse must not be stored. Any other claim is to
// be stored.
func TestAnswer_ObeysTheUnmetPolicyWithoutTheLedger(t *testing.T) {
	t.Parallel()
	for policy, want := range map[ipamv1alpha1.UnmetPolicy]bool{ipamv1alpha1.UnmetRefuse: true, ipamv1alpha1.UnmetWait: false} {
		s := newScene(t, allocator.Options{}, offered(gen.Unmet(policy)))
		s.ledger.Close()
		answer, err := s.Answer(t.Context(), door.Request{Cluster: "tenant", Claim: gen.Claim("c", gen.OfClass("internal"))})
		if !errors.Is(err, ledger.ErrClosed) || answer.Refuse != want {
			t.Errorf("%s: Answer = %+v, %v; want Refuse %t beside %v", policy, answer, err, want, ledger.ErrClosed)
		}
	}
}

// A refusal names the pool that is full, if it is the only candidate.
func TestAnswer_NamesTheFullPool(t *testing.T) {
	t.Parallel()
	s := newScene(t, allocator.Options{}, offered(gen.Unmet(ipamv1alpha1.UnmetRefuse)))
	s.create(gen.Claim("c", gen.OfClass("internal"), gen.Length(24)))
	if answer := s.create(gen.Claim("d", gen.OfClass("internal"))); answer.Pool != "p" || !answer.Refuse {
		t.Errorf("answered %+v, want a refusal that names p", answer)
	}
	second := readyPool("q", "10.1.0.0/28", gen.Backs("internal"), gen.Visible(ipamv1alpha1.VisibilityPlatform))
	must.Do(t, s.platform.Client.Create(t.Context(), second))
	s.register(second)
	s.create(gen.Claim("e", gen.OfClass("internal")))
	if answer := s.create(gen.Claim("f", gen.OfClass("internal"))); answer.Pool != "" || !answer.Refuse {
		t.Errorf("answered %+v, want a refusal that names no pool", answer)
	}
}
