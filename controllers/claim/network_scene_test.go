package claim

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/etcdtest"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/door"
	"github.com/kcp-ipam/ipam/controllers/internal/inbox"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// The classes of networks: a /48 for each network, a /64 for each location of it, a /96 for each endpoint.
const vpc, subnet, endpoint = "vpc", "subnet", "endpoint"

// networks is a scene with a chain of classes and its root pool. It plays ranges and releases. The test says which
// holders are gone.
type networks struct {
	*scene
	mu        sync.Mutex
	gone      map[ledger.ClaimID]bool
	restored  bool // nobody saw the deletion of the holders that are gone
	unknown   bool // no server says whether a holder is gone
	unstored  int  // at how many further requests no server knows the holder yet
	published []string
	announced []string
	fails     error // of Publish
}

// newNetworks returns networks with a root pool of this CIDR. The tenancy says whether each workspace has its own
// pools, or all share them.
func newNetworks(t *testing.T, cidr ipamv1alpha1.CIDR, tenancy string, more ...client.Object) *networks {
	t.Helper()
	return newNetworksIn(t, etcdtest.New(t).Client(), cidr, tenancy, more...)
}

// newNetworksIn returns the same as newNetworks, in this etcd.
func newNetworksIn(t *testing.T, etcd *clientv3.Client, cidr ipamv1alpha1.CIDR, tenancy string, more ...client.Object) *networks {
	t.Helper()
	return newNetworksOn(t, testbed.Ledger(t, etcd, allocator.Options{}), cidr, tenancy, more...)
}

// newNetworksOn returns the same as newNetworks, in this ledger.
func newNetworksOn(t *testing.T, alloc *allocator.Allocator, cidr ipamv1alpha1.CIDR, tenancy string, more ...client.Object) *networks {
	t.Helper()
	v6 := gen.Family(ipamv1alpha1.IPv6)
	root := readyPool("root", cidr, gen.Backs(vpc), gen.Visible(ipamv1alpha1.VisibilityPlatform))
	root.Status.IPFamily = ipamv1alpha1.IPv6
	objects := append([]client.Object{
		gen.Class(vpc, v6, gen.DefaultLength(48), gen.PoolPer(tenancy, "network")),
		gen.Class(subnet, v6, gen.DefaultLength(64), gen.Below(vpc), gen.PoolPer(tenancy, "network", "location"), gen.Reserves(1, 0, 96)),
		gen.Class(endpoint, v6, gen.DefaultLength(96), gen.Below(subnet)), root,
	}, more...)
	n := &networks{scene: newSceneIn(t, alloc, objects), gone: map[ledger.ClaimID]bool{}}
	n.Ranges, n.Releases = n, settles{n.servers, n}
	n.Queue = inbox.New(n.Directory).Claims
	t.Cleanup(n.Queue.ShutDown)
	return n
}

// settles plays releases that end the hold of a claim that is gone.
type settles struct {
	*alive
	in *networks
}

func (s settles) Settle(ctx context.Context, h ledger.Holder) (bool, error) {
	s.in.mu.Lock()
	defer s.in.mu.Unlock()
	if s.in.unknown {
		return false, nil
	}
	if held, ok := s.in.ledger.Derived().Held(h.Claim); ok && s.in.gone[h.Claim] {
		return true, s.in.ledger.Derived().Drop(ctx, held.ID, h.Claim, held.Derived.HeldSince)
	}
	return true, nil
}

// SettleWitnessed implements Releases as package release does: a claim that nobody saw being deleted stays.
func (s settles) SettleWitnessed(ctx context.Context, h ledger.Holder) (bool, error) {
	s.in.mu.Lock()
	unseen := s.in.restored && s.in.gone[h.Claim] || s.in.unstored > 0
	s.in.unstored = max(0, s.in.unstored-1)
	s.in.mu.Unlock()
	if unseen {
		return false, nil
	}
	return s.Settle(ctx, h)
}

func (s settles) Gone(_ context.Context, h ledger.Holder) (bool, error) {
	s.in.mu.Lock()
	defer s.in.mu.Unlock()
	return s.in.gone[h.Claim], nil
}

// Publish implements Ranges.
func (n *networks) Publish(ctx context.Context, p ledger.Pool) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	at := n.tenant
	if p.Cluster == "platform" {
		at = n.platform
	}
	object := gen.Pool(p.Name)
	object.Spec.ClassRef = &ipamv1alpha1.ClassRef{Name: p.Derived.Class}
	if err := at.Client.Create(ctx, object); err == nil {
		n.published = append(n.published, p.CIDR.String())
	} else if !apierrors.IsAlreadyExists(err) {
		return err
	}
	return n.fails
}

// Announce implements Ranges.
func (n *networks) Announce(pools ...ledger.Pool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range pools {
		n.announced = append(n.announced, p.CIDR.String())
	}
}

// Complete implements Ranges.
func (n *networks) Complete(ctx context.Context, id ledger.PoolID) (bool, error) {
	pool, ok := n.ledger.Pools().Get(id)
	if !ok || !n.gone[pool.Derived.Holder.Claim] {
		return !ok, nil
	}
	_ = n.tenant.Client.Delete(ctx, gen.Pool(pool.Name))
	return true, n.ledger.Pools().Retire(ctx, id)
}

// Replace implements Ranges.
func (n *networks) Replace(ctx context.Context, p ledger.Pool) error {
	for _, gone := range append(n.ledger.Derived().Below(p.ID), p) {
		if err := n.ledger.Pools().Retire(ctx, gone.ID); err != nil {
			return err
		}
		_ = n.tenant.Client.Delete(ctx, gen.Pool(gone.Name))
	}
	return nil
}

// scoped returns a claim by a class for a network, and for a location in it, unless that is empty.
func scoped(name, class, network, location string) *ipamv1alpha1.IPClaim {
	scope := []string{"network", network}
	if location != "" {
		scope = append(scope, "location", location)
	}
	return gen.Claim(name, gen.OfClass(class), gen.Within(scope...))
}

// ranged changes a claim into one for the range of its class.
func ranged(claim *ipamv1alpha1.IPClaim) *ipamv1alpha1.IPClaim {
	claim.Spec.Target = ipamv1alpha1.TargetScopeRange
	return claim
}

// answered answers the CREATE of a claim of a workspace. It asks again if a busy ledger does not answer in time.
func (n *networks) answered(in ledger.ClusterName, claim *ipamv1alpha1.IPClaim) (answer door.Answer, err error) {
	for range 5 {
		answer, err = n.Answer(n.Context(), door.Request{Cluster: in, Claim: claim})
		if !errors.Is(err, ledger.ErrUnavailable) && !errors.Is(err, door.ErrEarly) {
			break
		}
	}
	return answer, err
}

// create answers the CREATE of a claim of the tenant.
func (n *networks) create(claim *ipamv1alpha1.IPClaim) door.Answer {
	n.Helper()
	answer, err := n.answered("tenant", claim)
	if err != nil {
		n.Fatalf("Answer(%s): %v", claim.Name, err)
	}
	return answer
}

// derived lists the CIDRs of the pools that were made for a class.
func (n *networks) derived(class string) (found []string) {
	for p := range n.ledger.Derived().All() {
		if p.Derived.Class == class {
			found = append(found, p.CIDR.String())
		}
	}
	slices.Sort(found)
	return found
}

// delete closes the range that a claim holds, as the webhook does for the DELETE of the claim, and returns its pool.
// The claim stays.
func (n *networks) delete(claim *ipamv1alpha1.IPClaim) ledger.Pool {
	n.Helper()
	holder := promise.HolderOf("tenant", claim).Claim
	pool, ok := n.ledger.Derived().Held(holder)
	if !ok {
		n.Fatalf("claim %s holds nothing", claim.Name)
	}
	must.Get(n.ledger.Derived().Begin(n.Context(), pool.ID, holder, n.now.Now().Add(promise.Grace)))(n)
	return pool
}

// within reports whether a CIDR lies in another one.
func within(inner, outer string) bool {
	in, errIn := netip.ParsePrefix(inner)
	out, errOut := netip.ParsePrefix(outer)
	return errors.Join(errIn, errOut) == nil && out.Contains(in.Addr()) && in.Bits() > out.Bits()
}

// reasonOf returns reason and message of the condition Allocated in an answer.
func reasonOf(answer door.Answer) (ipamv1alpha1.Reason, string) {
	allocated := meta.FindStatusCondition(answer.Status.Conditions, ipamv1alpha1.ConditionAllocated)
	if allocated == nil {
		return "", ""
	}
	return ipamv1alpha1.Reason(allocated.Reason), allocated.Message
}
