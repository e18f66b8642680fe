package claim

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/etcdtest"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/door"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/controllers/internal/views"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// holder returns the ID of the claim that holds the pool of the network; empty if none does.
func (n *networks) holder() ledger.ClaimID { return n.made(vpc).Derived.Holder.Claim }

// The CREATE of a claim for a range is answered with the range, which the claim holds. The reconcile of the claim
// writes nothing, and forgets the CREATE.
func TestRange_IsHeldByItsClaim(t *testing.T) {
	t.Parallel()
	n := newNetworks(t, "2001:db8::/32", ipamv1alpha1.RoleProject)
	claim := ranged(scoped("v", vpc, "net", ""))
	answer := n.create(claim)
	status := answer.Status
	if status.AllocatedCIDR != "2001:db8::/48" || status.Phase != ipamv1alpha1.ClaimBound || status.BoundAllocationRef != nil || status.Address != "" ||
		status.Requested != "/48" || status.PoolRef == nil || !strings.HasPrefix(status.PoolRef.Name, "vpc-tenant-net-") {
		t.Fatalf("answered %+v, want Bound to the /48, with its pool and without a record", status)
	}
	holder := ledger.ClaimID(id(answer))
	if got := n.holder(); got != holder {
		t.Errorf("%q holds the range, want the claim of %q", got, holder)
	}
	before := n.stored(claim, answer)
	for range 2 {
		if after := n.reconcile("v"); after.ResourceVersion != before.ResourceVersion || len(n.tenant.writes) > 0 {
			t.Errorf("the claim was written: %v; it is %+v, was %+v", n.tenant.writes, after.Status, before.Status)
		}
		if got := n.holder(); got != holder || n.Answers.Unrecorded(n.made(vpc).Derived.Holder) {
			t.Errorf("%q holds the range, want the claim of %q, and its CREATE forgotten", got, holder)
		}
	}
}

// A claim for a range that another claim holds is refused, and the refusal names the holder. While it is not certain
// whether the holder exists, the refusal has no reason. Once the holder is gone, the claim gets the range.
func TestRange_IsRefusedWhileAnotherClaimHoldsIt(t *testing.T) {
	t.Parallel()
	n := newNetworks(t, "2001:db8::/32", ipamv1alpha1.RoleProject)
	claim := ranged(scoped("v", vpc, "net", ""))
	first := n.create(claim)
	holder := ledger.ClaimID(id(first))
	n.stored(claim, first)
	n.reconcile("v")
	other := ranged(scoped("w", vpc, "net", ""))
	answer := n.create(other)
	if reason, message := reasonOf(answer); reason != ipamv1alpha1.ReasonRangeHeld || !answer.Refuse || !strings.Contains(message, "default/v") {
		t.Errorf("answered %s: %s, refused %t; want a refusal that names default/v", reason, message, answer.Refuse)
	}
	n.unknown = true
	if answer, err := n.answered("tenant", other); err == nil || !answer.Refuse {
		t.Errorf("answered %+v, %v while no server says whether the holder is there; want a refusal without a reason", answer, err)
	}
	n.unknown, n.gone[holder], n.restored = false, true, true
	if answer, err := n.answered("tenant", other); err == nil || !answer.Refuse || n.holder() != holder {
		t.Errorf("answered %+v, %v, held by %s, after a kcp was restored that lacks the holder; want it refused, without a reason", answer, err, n.holder())
	}
	n.restored = false
	if answer := n.create(other); answer.Status.AllocatedCIDR != "2001:db8::/48" {
		t.Errorf("answered %+v after the holder has gone; want the range", answer.Status)
	}
}

// An older copy of the ledger has the pool of a range, but lacks the claim that holds the range. No other claim gets
// the range until the ledger was compared with the published records, or while it is known to have lost something. The
// claim that shows the range holds it again at once.
func TestRange_IsKeptForAHolderThatTheLedgerHasLost(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.New(t).Client()
	n := newNetworksIn(t, etcd, "2001:db8::/32", ipamv1alpha1.RoleProject)
	claim := ranged(scoped("v", vpc, "net", ""))
	first := n.create(claim)
	n.stored(claim, first)
	must.Do(t, n.ledger.Derived().Drop(t.Context(), n.made(vpc).ID, ledger.ClaimID(id(first)), time.Time{})) // as in the copy
	queue := n.Queue
	n.start(testbed.Ledger(t, etcd, allocator.Options{Frozen: true}))
	n.Ranges, n.Queue, n.Releases = n, queue, settles{n.servers, n}
	other := ranged(scoped("w", vpc, "net", ""))
	if answer, err := n.answered("tenant", other); !errors.Is(err, errUnchecked) || n.holder() != "" {
		t.Errorf("answered %+v, %v, held by %q, before the pool was compared; want %v", answer, err, n.holder(), errUnchecked)
	}
	must.Do(t, n.ledger.Recovery().Freeze(t.Context(), n.made(vpc).ID, time.Time{}))
	answer, err := n.answered("tenant", other)
	if reason, message := reasonOf(answer); err != nil || reason != ipamv1alpha1.ReasonError || !strings.Contains(message, "frozen") || n.holder() != "" {
		t.Errorf("answered %s: %s, %v, held by %q, by a ledger that has lost something; want it refused", reason, message, err, n.holder())
	}
	n.reconcile("v")
	if got := n.holder(); got != ledger.ClaimID(id(first)) {
		t.Errorf("%q holds the range, want the claim that shows it", got)
	}
}

// The refusal of a range that all workspaces share does not name a holder in another workspace.
func TestRange_HidesAHolderInAnotherWorkspace(t *testing.T) {
	t.Parallel()
	n := newNetworks(t, "2001:db8::/32", ipamv1alpha1.RoleAllProjects)
	n.create(ranged(scoped("secret", vpc, "net", "")))
	answer, err := n.answered("platform", ranged(scoped("w", vpc, "net", "")))
	if reason, message := reasonOf(answer); err != nil || reason != ipamv1alpha1.ReasonRangeHeld || strings.Contains(message, "secret") || strings.Contains(message, "tenant") {
		t.Errorf("answered %s: %s, %v; want a refusal that names no claim", reason, message, err)
	}
}

// A CREATE that needs a range which is being released gets errReleasing while the claim of the range exists. Once that
// claim is gone, the next CREATE gets a new pool.
func TestRange_IsReleasedAndMadeAgain(t *testing.T) {
	t.Parallel()
	n := newNetworks(t, "2001:db8::/32", ipamv1alpha1.RoleProject)
	claim := ranged(scoped("v", vpc, "net", ""))
	first := n.create(claim)
	n.stored(claim, first)
	n.reconcile("v")
	former := n.delete(claim)
	for _, next := range []*ipamv1alpha1.IPClaim{ranged(scoped("w", vpc, "net", "")), scoped("e", endpoint, "net", "ams")} {
		if answer, err := n.answered("tenant", next); !errors.Is(err, errReleasing) || !answer.Refuse {
			t.Errorf("%s is answered %+v, %v while the claim of the range is there; want %v", next.Name, answer, err, errReleasing)
		}
	}
	n.gone[ledger.ClaimID(id(first))] = true
	n.Answers.Stored(promise.HolderOf("tenant", claim))
	published := len(n.published)
	var answers []door.Answer
	for _, next := range []*ipamv1alpha1.IPClaim{ranged(scoped("v", vpc, "net", "")), scoped("e", endpoint, "net", "ams")} {
		answer := n.create(next)
		if answer.Status.AllocatedCIDR == "" {
			t.Errorf("%s is answered %+v, want what it asks for", next.Name, answer)
		}
		answers = append(answers, answer)
	}
	if now := n.made(vpc); !now.RegisteredAt.After(former.RegisteredAt) || len(n.published) == published || now.Derived.Holder.Claim != ledger.ClaimID(id(answers[0])) {
		t.Errorf("the pool is %+v, was %+v; want a new one, published, and held by the new claim", now, former)
	}
}

// The hold of a claim was given up before the claim was seen. The claim holds its range again. If another claim holds
// the range meanwhile, the late claim loses it.
func TestRange_IsHeldAgainByAClaimSeenLate(t *testing.T) {
	t.Parallel()
	for name, rival := range map[string]bool{"nobody came": false, "another claim came": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNetworks(t, "2001:db8::/32", ipamv1alpha1.RoleProject)
			claim := ranged(scoped("v", vpc, "net", ""))
			answer := n.create(claim)
			n.stored(claim, answer)
			want := ledger.ClaimID(id(answer))
			must.Do(t, n.ledger.Derived().Drop(t.Context(), n.made(vpc).ID, want, time.Time{}))
			if rival {
				want = ledger.ClaimID(id(n.create(ranged(scoped("w", vpc, "net", "")))))
				n.later(promise.Grace + time.Minute)
				n.memory.clock = n.now
				_, _ = n.Reconcile(t.Context(), requestIn("tenant", "v"))
				n.later(promise.Grace + time.Hour)
			}
			_, _ = n.Reconcile(t.Context(), requestIn("tenant", "v"))
			now := &ipamv1alpha1.IPClaim{}
			must.Do(t, n.tenant.Client.Get(t.Context(), requestIn("tenant", "v").NamespacedName, now))
			if got := n.holder(); got != want || (now.Status.AllocatedCIDR == "") != rival {
				t.Errorf("%q holds the range, and the claim shows %q; want %q", got, now.Status.AllocatedCIDR, want)
			}
		})
	}
}

// The ledger has lost the pool of a range, and only the claim shows the range's CIDR. The claim gets the same range
// again, even if lower addresses are free. If another claim has the addresses of the range now, the first claim goes on
// showing them until they are taken back. A claim that no server knows gets nothing.
func TestRange_IsMadeAgainWithTheCIDRThatItsClaimShows(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ taken, deleted, again bool }{
		"nobody came":        {again: true},
		"another claim came": {taken: true},
		"the claim has gone": {deleted: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNetworks(t, "2001:db8::/32", ipamv1alpha1.RoleProject)
			before, claim := n.create(ranged(scoped("b", vpc, "before", ""))), ranged(scoped("v", vpc, "net", ""))
			answer := n.create(claim)
			n.stored(claim, answer)
			for _, lost := range []door.Answer{before, answer} {
				pool, _ := n.ledger.Derived().Held(ledger.ClaimID(id(lost)))
				must.Do(t, errors.Join(n.ledger.Derived().Drop(t.Context(), pool.ID, pool.Derived.Holder.Claim, time.Time{}), n.ledger.Pools().Retire(t.Context(), pool.ID)))
			}
			if tt.taken {
				other := ranged(scoped("o", vpc, "other", ""))
				other.Spec.Address = answer.Status.AllocatedCIDR
				n.create(other)
			}
			if tt.deleted {
				n.servers.claim = nil
			}
			_, _ = n.Reconcile(t.Context(), requestIn("tenant", "v"))
			held, ok := n.ledger.Derived().Held(ledger.ClaimID(id(answer)))
			if ok != tt.again || ok && held.CIDR.String() != answer.Status.AllocatedCIDR {
				t.Errorf("the claim holds %s, %t; want %s, %t", held.CIDR, ok, answer.Status.AllocatedCIDR, tt.again)
			}
			now := &ipamv1alpha1.IPClaim{}
			must.Do(t, n.tenant.Client.Get(t.Context(), requestIn("tenant", "v").NamespacedName, now))
			if now.Status.AllocatedCIDR != answer.Status.AllocatedCIDR {
				t.Errorf("the claim shows %q, want %s still", now.Status.AllocatedCIDR, answer.Status.AllocatedCIDR)
			}
		})
	}
}

// A CREATE was just answered with a range. Another CREATE that needs this range waits until the claim of the first one
// is stored. It does not wait if that claim should have been stored long ago.
func TestRange_WaitsUntilTheHolderIsStored(t *testing.T) {
	t.Parallel()
	n := newNetworks(t, "2001:db8::/32", ipamv1alpha1.RoleProject)
	n.create(ranged(scoped("v", vpc, "net", "")))
	n.unstored = 2
	other := ranged(scoped("w", vpc, "net", ""))
	if reason, message := reasonOf(n.create(other)); reason != ipamv1alpha1.ReasonRangeHeld {
		t.Errorf("answered %s: %s; want that another claim holds the range", reason, message)
	}
	n.later(time.Minute)
	n.unstored = 2
	if answer, err := n.answered("tenant", other); err == nil || n.unstored != 1 {
		t.Errorf("answered %+v, %v after %d looks; want a refusal without a reason after one", answer, err, 2-n.unstored)
	}
}

// Once a server shows a claim, the claim takes over the hold of a former claim of its name: the former claim cannot
// exist any more.
func TestRange_PassesToALaterClaimOfTheName(t *testing.T) {
	t.Parallel()
	n := newNetworks(t, "2001:db8::/32", ipamv1alpha1.RoleProject)
	claim := ranged(scoped("v", vpc, "net", ""))
	answer := n.create(claim)
	former := ledger.Holder{Claim: "former", Cluster: "tenant", Namespace: "default", Name: "v"}
	must.Get(n.ledger.Derived().Hand(t.Context(), n.made(vpc).ID, ledger.ClaimID(id(answer)), former))(t)
	n.stored(claim, answer)
	n.unknown = true
	alive := n.servers.claim
	n.servers.claim = nil
	_, _ = n.Reconcile(t.Context(), requestIn("tenant", "v"))
	if got := n.holder(); got != "former" {
		t.Errorf("%q holds the range while no server shows the claim, want the former one", got)
	}
	n.servers.claim = alive
	n.reconcile("v")
	if got, want := n.holder(), ledger.ClaimID(id(answer)); got != want {
		t.Errorf("%q holds the range, want the claim of %q", got, want)
	}
}

// The range of an answered CREATE passes to the next CREATE of the name only once a server confirms that no claim of
// the first CREATE exists.
func TestRange_PassesToTheNextCreateOfTheName(t *testing.T) {
	t.Parallel()
	n := newNetworks(t, "2001:db8::/32", ipamv1alpha1.RoleProject)
	claim := ranged(scoped("v", vpc, "net", ""))
	first := ledger.ClaimID(id(n.create(claim)))
	n.later(time.Minute)
	n.restored = true // nobody has seen a deletion
	if answer, err := n.answered("tenant", claim); err == nil && answer.Status.AllocatedCIDR != "" || n.holder() != first {
		t.Errorf("answered %+v, %v, held by %s; want no answer while the first claim may be there", answer, err, n.holder())
	}
	n.gone[first] = true
	if next := n.create(claim); next.Status.AllocatedCIDR != "2001:db8::/48" || n.holder() != ledger.ClaimID(id(next)) || id(next) == string(first) {
		t.Errorf("answered %+v, held by %s; want the range, held by the new claim", next.Status, n.holder())
	}
}

// during plays ranges, and calls the function in its field do before it publishes its first pool.
type during struct {
	*networks
	do func(ledger.Pool)
}

func (d *during) Publish(ctx context.Context, pool ledger.Pool) error {
	if do := d.do; do != nil {
		d.do = nil
		do(pool)
	}
	return d.networks.Publish(ctx, pool)
}

// after plays ranges, and calls the function in its field do after it has published its first pool.
type after struct {
	*networks
	do func(ledger.Pool)
}

func (a *after) Publish(ctx context.Context, pool ledger.Pool) error {
	err := a.networks.Publish(ctx, pool)
	if do := a.do; do != nil {
		a.do = nil
		do(pool)
	}
	return err
}

// After a CREATE has published its pool, and before it binds there, the pool may be closed for a DELETE, lose its
// IPPool, and be opened by another CREATE. The IPPool that the answer names exists all the same.
func TestDescend_PublishesItsPoolAgain(t *testing.T) {
	t.Parallel()
	for _, claim := range []*ipamv1alpha1.IPClaim{scoped("c", endpoint, "net", "ams"), ranged(scoped("v", vpc, "net", ""))} {
		n := newNetworks(t, "2001:db8::/32", ipamv1alpha1.RoleProject)
		n.Ranges = &after{n, func(p ledger.Pool) { must.Do(t, n.tenant.Client.Delete(t.Context(), gen.Pool(p.Name))) }}
		answer := n.create(claim)
		if answer.Status.AllocatedCIDR == "" {
			t.Fatalf("claim %s has %+v, want a CIDR", claim.Name, answer.Status)
		}
		if err := n.tenant.Client.Get(t.Context(), client.ObjectKey{Name: answer.Status.PoolRef.Name}, &ipamv1alpha1.IPPool{}); err != nil {
			t.Errorf("the IPPool that claim %s names: %v", claim.Name, err)
		}
	}
}

// Two CREATEs of one name get the same range. While the second is being answered, the claim of the first is stored, and
// then deleted together with the range. The answer to the second CREATE does not show the range.
func TestRange_IsNotShownOnceItIsRetired(t *testing.T) {
	t.Parallel()
	n := newNetworks(t, "2001:db8::/32", ipamv1alpha1.RoleProject)
	n.Ranges = &during{n, func(p ledger.Pool) {
		derived, earlier := n.ledger.Derived(), ledger.Holder{Claim: "earlier", Cluster: "tenant", Namespace: "default", Name: "c"}
		_, err := derived.Hand(t.Context(), p.ID, p.Derived.Holder.Claim, earlier)
		_, closed := derived.Begin(t.Context(), p.ID, "earlier", time.Now())
		if err := errors.Join(err, closed, n.ledger.Pools().Retire(t.Context(), p.ID)); err != nil {
			t.Error(err)
		}
	}}
	claim := scoped("c", vpc, "net", "")
	claim.Spec.Target = ipamv1alpha1.TargetScopeRange
	answer := n.create(claim)
	held, ok := n.ledger.Derived().Held(ledger.ClaimID(id(answer)))
	if shown := answer.Status.AllocatedCIDR; shown != "" && (!ok || held.CIDR.String() != shown) {
		t.Errorf("answered with %s, and the ledger has %s for it, %t", shown, held.CIDR, ok)
	}
}

// If the CREATE of a claim for a range fails after it has made or held the pool, its hold ends at once.
func TestRange_IsGivenBackByACreateThatFails(t *testing.T) {
	t.Parallel()
	failing := errors.New("the IPPool is not there")
	for name, ready := range map[string]func(*networks){
		"as it makes the pool": func(n *networks) { n.fails = failing },
		"when it holds the pool": func(n *networks) {
			n.create(scoped("e", endpoint, "net", "ams"))
			n.Ledger.Pools = vanishing{n.ledger.Pools(), n.made(vpc).Derived.HeldSince}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNetworks(t, "2001:db8::/32", ipamv1alpha1.RoleProject)
			ready(n)
			if answer, err := n.answered("tenant", ranged(scoped("v", vpc, "net", ""))); err == nil || !answer.Refuse {
				t.Fatalf("answered %+v, %v; want a refusal without a reason", answer, err)
			}
			if got := n.holder(); got != "" {
				t.Errorf("%q holds the range, want nobody", got)
			}
		})
	}
}

// vanishing is a view of the pools that hides a pool while a claim named v holds it. So the CREATE of v fails as soon
// as the claim holds the pool. A pool whose HeldSince equals the field since is not hidden.
type vanishing struct {
	views.Pools
	since time.Time
}

func (v vanishing) Get(id ledger.PoolID) (ledger.Pool, bool) {
	p, ok := v.Pools.Get(id)
	return p, ok && (p.Derived == nil || p.Derived.Holder.Name != "v" || p.Derived.HeldSince.Equal(v.since))
}

// A claim for a block by a class that makes ranges gets a warning, because its user may have forgotten the target. A
// claim for the range gets none, nor does a claim by a class below.
func TestRange_WarnsOfAForgottenTarget(t *testing.T) {
	t.Parallel()
	n := newNetworks(t, "2001:db8::/32", ipamv1alpha1.RoleProject)
	for _, tt := range []struct {
		claim *ipamv1alpha1.IPClaim
		warns bool
	}{
		{scoped("forgot", vpc, "net", ""), true}, {ranged(scoped("range", vpc, "net", "")), false}, {scoped("inside", endpoint, "net", "ams"), false},
	} {
		answer := n.create(tt.claim)
		if warned := strings.Contains(answer.Warning, `ranges of class "vpc"`) && strings.Contains(answer.Warning, "spec.target"); answer.Status.AllocatedCIDR == "" || warned != tt.warns {
			t.Errorf("claim %s is answered with %s and the warning %q, want one: %t", tt.claim.Name, answer.Status.AllocatedCIDR, answer.Warning, tt.warns)
		}
	}
}
