package claim

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/inbox"
	"github.com/kcp-ipam/ipam/controllers/internal/resolve"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// recorded makes a claim with its record, which shows a block that another claim has.
func recorded(t *testing.T, name string) *forgery {
	t.Helper()
	return recordedIn(t, allocator.Options{}, name)
}

// recordedIn does the same as recorded, in a ledger with these options.
func recordedIn(t *testing.T, options allocator.Options, name string) *forgery {
	t.Helper()
	f := forgeIn(t, options, name)
	f.Doubts = NewDoubts(inbox.New(f.Directory).Claims, f.Directory)
	t.Cleanup(f.Doubts.queue.ShutDown)
	must.Do(t, f.tenant.Client.Create(t.Context(), gen.Allocation(name, "p", "10.0.0.0/28")))
	return f
}

// Another claim has the addresses that a claim's record shows. The claim goes on showing its block, and says that a
// claim of another workspace has it. When that claim goes, the block is bound to the first claim again.
func TestRegain_GetsTheBlockWhenTheOtherClaimGoes(t *testing.T) {
	t.Parallel()
	f := recorded(t, "rival")
	f.Doubts.Add(ledger.Holder{Claim: "uid-of-rival", Cluster: "tenant", Namespace: "default", Name: "rival"})
	now := f.look(time.Hour)
	ready := meta.FindStatusCondition(now.Status.Conditions, ipamv1alpha1.ConditionReady)
	if now.Status.AllocatedCIDR != "10.0.0.0/28" || ready == nil || ready.Reason != string(ipamv1alpha1.ReasonAddressInUse) ||
		!strings.Contains(ready.Message, "given to a claim of another workspace") {
		t.Errorf("the claim shows %+v; want its block still, and that a claim of another workspace has it", now.Status)
	}
	f.wantBlocks("10.0.0.0/28 bound other")
	must.Do(t, f.ledger.Release(t.Context(), "other"))
	now = f.look(2 * time.Hour)
	if now.Status.Phase != ipamv1alpha1.ClaimBound || !meta.IsStatusConditionTrue(now.Status.Conditions, ipamv1alpha1.ConditionReady) {
		t.Errorf("once the other claim has gone the claim shows %+v; want it bound", now.Status)
	}
	f.wantBlocks("10.0.0.0/28 bound uid-of-rival")
}

// If the claim that has the addresses is in the same workspace, the message names it.
func TestRegain_NamesAClaimOfTheWorkspace(t *testing.T) {
	t.Parallel()
	f := recorded(t, "named")
	must.Do(t, f.ledger.Release(t.Context(), "other"))
	winner := ledger.Holder{Claim: "winner", Cluster: "tenant", Namespace: "default", Name: "winner"}
	must.Get(f.ledger.Bind(t.Context(), ledger.Request{Pool: "uid-of-p", Holder: winner, Length: 28}))(t)
	f.Doubts.Add(ledger.Holder{Claim: "uid-of-named", Cluster: "tenant", Namespace: "default", Name: "named"})
	ready := meta.FindStatusCondition(f.look(time.Hour).Status.Conditions, ipamv1alpha1.ConditionReady)
	if ready == nil || !strings.Contains(ready.Message, "10.0.0.0/28 was given to claim winner in namespace default") {
		t.Errorf("the claim says %+v; want the name of the other claim", ready)
	}
}

// If the other claim has gone, and its addresses cool, the claim says until when.
func TestRegain_SaysUntilWhenTheAddressesCool(t *testing.T) {
	t.Parallel()
	cools := func(ledger.Block) (time.Duration, error) { return time.Hour, nil }
	f := recordedIn(t, allocator.Options{Cooldown: cools}, "cooled")
	must.Do(t, f.ledger.Release(t.Context(), "other"))
	f.Doubts.Add(ledger.Holder{Claim: "uid-of-cooled", Cluster: "tenant", Namespace: "default", Name: "cooled"})
	ready := meta.FindStatusCondition(f.look(time.Hour).Status.Conditions, ipamv1alpha1.ConditionReady)
	if ready == nil || ready.Reason != string(ipamv1alpha1.ReasonAddressInUse) || !strings.Contains(ready.Message, "10.0.0.0/28: prefix is cooling") {
		t.Errorf("the claim says %+v; want that its addresses are cooling", ready)
	}
}

// The ledger has lost the pools of a claim's chain, and only the claim's IPAllocation shows where they were. The claim
// makes them again around its block, even if lower addresses are free.
func TestRegain_RecreatesTheLostPools(t *testing.T) {
	t.Parallel()
	n := newNetworks(t, "2001:db8::/32", ipamv1alpha1.RoleProject)
	n.Doubts = NewDoubts(n.Queue, n.Directory)
	n.create(scoped("before", endpoint, "before", "ams"))
	claim := scoped("e", endpoint, "net", "ams")
	answer := n.create(claim)
	n.stored(claim, answer)
	n.reconcile("e")
	around := func() (pools []ledger.Pool) { // the lower one first
		for p := range n.ledger.Derived().All() {
			if within(answer.Status.AllocatedCIDR, p.CIDR.String()) {
				pools = append(pools, p)
			}
		}
		slices.SortFunc(pools, func(p, q ledger.Pool) int { return q.CIDR.Bits() - p.CIDR.Bits() })
		return pools
	}
	lost := around()
	shown := gen.Pool(lost[0].Name)
	must.Do(t, n.tenant.Client.Get(t.Context(), client.ObjectKeyFromObject(shown), shown))
	shown.Spec.Scope = resolve.APIScope(lost[0].Derived.Scope)
	must.Do(t, n.tenant.Client.Update(t.Context(), shown))
	for b, err := range n.ledger.List(t.Context(), allocator.ListOptions{}) {
		if must.Do(t, err); b.Holder.Namespace != "" {
			must.Do(t, n.ledger.Release(t.Context(), b.Holder.Claim))
		}
	}
	for _, class := range []string{subnet, vpc} {
		for p := range n.ledger.Derived().All() {
			if p.Derived.Class == class {
				must.Do(t, n.ledger.Pools().Retire(t.Context(), p.ID))
			}
		}
	}
	n.Doubts.Add(ledger.Holder{Claim: ledger.ClaimID(id(answer)), Cluster: "tenant", Namespace: "default", Name: "e"})
	n.reconcile("e")
	if block, ok, err := n.ledger.Lookup(t.Context(), ledger.ClaimID(id(answer))); err != nil || !ok || block.Prefix.String() != answer.Status.AllocatedCIDR {
		t.Errorf("Lookup = %s, %t, %v; want the claim's block", block.Prefix, ok, err)
	}
	if now := around(); len(now) != 2 || now[0].CIDR != lost[0].CIDR || now[1].CIDR != lost[1].CIDR {
		t.Errorf("the pools are %+v, want them where they were: %+v", now, lost)
	}
}
