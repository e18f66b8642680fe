package claim

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	clientv3 "go.etcd.io/etcd/client/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/etcdtest"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	keeping "github.com/kcp-ipam/ipam/controllers/derived"
	"github.com/kcp-ipam/ipam/controllers/door"
	"github.com/kcp-ipam/ipam/controllers/internal/inbox"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/controllers/internal/resolve"
	"github.com/kcp-ipam/ipam/controllers/internal/views"
	"github.com/kcp-ipam/ipam/controllers/release"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// mortal is networks whose controller dies after a number of writes, and is started again. Claims, releases and ranges
// are handled by the real controllers; the API server is played.
type mortal struct {
	*networks
	etcd   *clientv3.Client
	server client.Client // of the tenant, as users and other controllers reach it
	closer *keeping.Closer
	frees  *release.Controller
	fuse   *testbed.Fuse
	life   context.Context // of the controller
	// outside: the ranges are made before the endpoints. stores: a claim is stored though its CREATE was not answered.
	outside, stores bool
}

func newMortal(t *testing.T) *mortal {
	t.Helper()
	m := &mortal{etcd: etcdtest.New(t).Client()}
	m.networks = newNetworksIn(t, m.etcd, "2001:db8::/32", ipamv1alpha1.RoleProject)
	m.server = m.tenant.Client
	return m
}

// forEver is more writes than any life has.
const forEver = 1_000_000

// begins starts a controller that dies after this number of writes.
func (m *mortal) begins(writes int) {
	m.Helper()
	m.fuse, m.life = testbed.NewFuse(m, writes)
	m.tenant.Client = m.fuse.Client(m.server)
	m.start(testbed.Ledger(m, m.fuse.Etcd(m.etcd), allocator.Options{}))
	m.Queue = inbox.New(m.Directory).Claims
	m.Cleanup(m.Queue.ShutDown)
	keeper := &keeping.Keeper{
		Ledger: views.Of(m.ledger), Ranges: m.ledger.Derived(), Catalog: m.Catalog, Oracle: world{m}, Clock: m.now,
		Departed: func(ledger.ClusterName) bool { return false },
		Compare:  func(context.Context, ledger.PoolID) (bool, error) { return true, nil },
	}
	frees := must.Get(release.New(noManager{}, release.Options{
		HasAll: func(context.Context, ledger.ClusterName, client.Object) (bool, error) { return true, nil },
		Ledger: views.Of(m.ledger), Ranges: m.ledger.Derived(), Oracle: world{m}, Clock: m.now, RetireClosed: keeper.RetireClosed,
		Bound:    func(ledger.ClusterName) bool { return true },
		Lease:    func(context.Context, ledger.Block) (time.Duration, error) { return 0, nil },
		Reclaims: m.Catalog.Reclaims,
	}))(m)
	m.frees = frees
	m.closer = &keeping.Closer{
		Keeper: keeper, Releases: frees,
		HasAll:   func(context.Context, ledger.ClusterName, client.Object) (bool, error) { return true, nil },
		InOffice: m.ledger.InOffice,
	}
	m.Ranges, m.Releases = announcer{m.closer, m}, frees
}

// announcer publishes at once, because no controller of pools runs.
type announcer struct {
	*keeping.Closer
	in *mortal
}

func (a announcer) Announce(pools ...ledger.Pool) {
	for _, p := range pools {
		if ledger.IsDerived(p.ID) {
			_ = a.Publish(a.in.Context(), p) // if it fails, the next life finds it missing
		}
	}
}

// noManager is a manager for a controller that nobody runs.
type noManager struct{ manager.Manager }

func (noManager) GetControllerOptions() config.Controller {
	return config.Controller{SkipNameValidation: new(true)} // each life has a controller of the same name
}
func (noManager) GetLogger() logr.Logger     { return logr.Discard() }
func (noManager) Add(manager.Runnable) error { return nil }

// world answers in place of the servers, from the objects of the tenant.
type world struct{ *mortal }

// Holder implements the oracles of derived pools and releases.
func (s world) Holder(ctx context.Context, h ledger.Holder) (live.Answer, error) {
	var object client.Object = &ipamv1alpha1.IPPool{}
	if h.Namespace != "" {
		object = &ipamv1alpha1.IPClaim{}
	}
	answer := live.Answer{Verdict: live.Gone, Client: s.tenant.Client}
	if err := s.server.Get(ctx, client.ObjectKey{Namespace: h.Namespace, Name: h.Name}, object); err != nil {
		return answer, client.IgnoreNotFound(err)
	}
	answer.Object = object
	if live.Is(object, h) {
		answer.Verdict = live.Alive
	}
	return answer, nil
}

// Lacks implements release.Oracle.
func (world) Existed(context.Context, client.Client, ledger.Holder, string) (existed, known bool, err error) {
	return false, false, nil
}

func (world) Lacks(context.Context, ledger.Holder) (client.Client, bool, error) {
	return nil, false, nil
}

// Census implements release.Oracle.
func (world) Census(context.Context) (live.Census, bool, error) { return live.Census{}, false, nil }

// claims returns four claims: f and e for two endpoints, l for the range of the location of e, and v for the range of
// the network.
func (m *mortal) claims() []*ipamv1alpha1.IPClaim {
	return []*ipamv1alpha1.IPClaim{
		scoped("f", endpoint, "net", "fra"), scoped("e", endpoint, "net", "ams"), ranged(scoped("l", subnet, "net", "ams")), ranged(scoped("v", vpc, "net", "")),
	}
}

// there returns a claim as the server has it, or nil.
func (m *mortal) there(name string) *ipamv1alpha1.IPClaim {
	m.Helper()
	claim := &ipamv1alpha1.IPClaim{}
	err := m.server.Get(m.Context(), client.ObjectKey{Namespace: "default", Name: name}, claim)
	if apierrors.IsNotFound(err) {
		return nil
	}
	must.Do(m, err)
	return claim
}

// makes creates the claims that do not exist, and reconciles all until they are bound, or the controller is dead.
func (m *mortal) makes() {
	m.Helper()
	order := m.claims()
	if m.outside {
		slices.Reverse(order)
	}
	for _, claim := range order {
		if m.there(claim.Name) == nil && !m.asks(claim) {
			return
		}
		for passes := 0; m.there(claim.Name).Status.Phase != ipamv1alpha1.ClaimBound || !m.confirmed(claim); passes++ {
			_, err := m.Reconcile(m.life, requestIn("tenant", claim.Name))
			if m.fuse.Blown() {
				return
			}
			if passes > 10 {
				m.Fatalf("claim %s is not bound: %+v, %v", claim.Name, m.there(claim.Name).Status, err)
			}
		}
	}
}

// asks sends the CREATE of a claim, and stores the claim if the CREATE was answered, or if the field stores is set. It
// reports whether the controller is still alive.
func (m *mortal) asks(claim *ipamv1alpha1.IPClaim) bool {
	m.Helper()
	answer, err := m.Answer(m.life, door.Request{Cluster: "tenant", Claim: claim})
	dead := m.fuse.Blown()
	if err != nil && !dead || err == nil && answer.Status.AllocatedCIDR == "" {
		m.Fatalf("the CREATE of claim %s is answered with %+v, %v; want its block", claim.Name, answer, err)
	}
	if err == nil || m.stores {
		m.tenant.Client = m.server
		m.stored(claim, answer)
		m.tenant.Client = m.fuse.Client(m.server)
	}
	return !dead
}

// confirmed reports whether a claim has a block or a range in the ledger.
func (m *mortal) confirmed(claim *ipamv1alpha1.IPClaim) bool {
	m.Helper()
	id := promise.IDOf("tenant", m.there(claim.Name))
	if resolve.IsRange(claim) {
		_, ok := m.ledger.Derived().Held(id)
		return ok
	}
	_, ok, err := m.ledger.Lookup(m.Context(), id)
	must.Do(m, err)
	return ok
}

// whole fails the test unless each claim shows its block or range in the ledger, and its pool has its IPPool.
func (m *mortal) whole() {
	m.Helper()
	cidrs := map[string]string{}
	for _, claim := range m.claims() {
		now := m.there(claim.Name)
		cidr := now.Status.AllocatedCIDR
		cidrs[claim.Name] = cidr
		if resolve.IsRange(claim) {
			if held, ok := m.ledger.Derived().Held(promise.IDOf("tenant", now)); !ok || held.CIDR.String() != cidr {
				m.Errorf("claim %s shows %s, and holds %+v", claim.Name, cidr, held)
			}
		} else if block, ok, err := m.ledger.Lookup(m.Context(), promise.IDOf("tenant", now)); err != nil || !ok || block.Prefix.String() != cidr {
			m.Errorf("claim %s shows %s, and has %+v, %v", claim.Name, cidr, block, err)
		}
		if err := m.server.Get(m.Context(), client.ObjectKey{Name: now.Status.PoolRef.Name}, &ipamv1alpha1.IPPool{}); err != nil {
			m.Errorf("the pool that claim %s names: %v", claim.Name, err)
		}
	}
	if f, e, l, v := cidrs["f"], cidrs["e"], cidrs["l"], cidrs["v"]; !within(e, l) || within(f, l) || !within(l, v) || !within(f, v) {
		m.Errorf("the claims have %v; want e in l, f beside l, and all in v", cidrs)
	}
	if len(m.derived(vpc)) != 1 || len(m.derived(subnet)) != 2 {
		m.Errorf("there are %v and %v, want one /48 and two /64", m.derived(vpc), m.derived(subnet))
	}
	etcdtest.CheckLedger(m, m.etcd, "/ipam/v1")
}

// removes deletes the claims, from the inside out, and settles what they leave behind, until the controller is dead.
func (m *mortal) removes() {
	m.Helper()
	for _, claim := range m.claims() {
		now := m.there(claim.Name)
		if now != nil && resolve.IsRange(now) {
			inside, err := m.closer.CloseRange(m.life, "tenant", now, false)
			if m.fuse.Blown() && err != nil {
				return // so the DELETE fails
			}
			if err != nil || inside != "" {
				m.Fatalf("the DELETE of claim %s is refused: %q, %v", claim.Name, inside, err)
			}
		}
		if now != nil {
			must.Do(m, m.server.Delete(m.Context(), now))
			m.frees.Deleted(promise.HolderOf("tenant", now), now, nil)
		}
		if m.settles(); m.fuse.Blown() {
			return
		}
	}
}

// settles settles the block or range of every holder, as sweeps do.
func (m *mortal) settles() {
	m.Helper()
	var holders []ledger.Holder
	for p := range m.ledger.Derived().All() {
		if p.Derived.Holder.Claim != "" {
			holders = append(holders, p.Derived.Holder)
		}
	}
	for b, err := range m.ledger.List(m.Context(), allocator.ListOptions{}) {
		must.Do(m, err)
		holders = append(holders, b.Holder)
	}
	for _, h := range holders {
		if _, err := m.frees.Settle(m.life, h); err != nil && !m.fuse.Blown() {
			m.Errorf("Settle of %+v: %v", h, err)
		}
	}
}

// empty waits until no CREATE can succeed any more and idle pools are old, and fails the test if anything is left.
func (m *mortal) empty() {
	m.Helper()
	m.later(2 * promise.Grace)
	m.settles()
	if err := m.closer.RetireBelow(m.Context(), "uid-of-root"); err != nil {
		m.Errorf("retire the idle pools: %v", err)
	}
	m.wantBlocks()
	left := append(m.derived(vpc), m.derived(subnet)...)
	for _, list := range []client.ObjectList{&ipamv1alpha1.IPClaimList{}, &ipamv1alpha1.IPAllocationList{}, &ipamv1alpha1.IPPoolList{}} {
		must.Do(m, m.server.List(m.Context(), list))
		if n := meta.LenList(list); n > 0 {
			left = append(left, fmt.Sprintf("%d of %T", n, list))
		}
	}
	if len(left) > 0 {
		m.Errorf("there is left: %q", left)
	}
	etcdtest.CheckLedger(m, m.etcd, "/ipam/v1")
}
