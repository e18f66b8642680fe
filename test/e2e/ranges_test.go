package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// ranges is a scene with a chain of classes: a /24 for each network of a workspace, a /28 for each location in it,
// and addresses.
type ranges struct {
	scene
	root *ipamv1alpha1.IPPool
}

func newRanges(t *testing.T) *ranges {
	t.Helper()
	return newRangesIn(newScene(t))
}

// newRangesIn makes the classes in a scene. The options are for the class of networks.
func newRangesIn(in scene, options ...gen.ClassOption) *ranges {
	in.Helper()
	t, r := in.T, &ranges{scene: in}
	net, loc := r.name+"-net", r.name+"-loc"
	framework.Create(t, r.platform,
		gen.Class(net, append(options, gen.DefaultLength(24), gen.PoolPer("network", ipamv1alpha1.RoleProject))...),
		gen.Class(loc, gen.DefaultLength(28), gen.PoolPer("network", "location", ipamv1alpha1.RoleProject), gen.Below(net)),
		gen.Class(r.name, gen.DefaultLength(32), gen.Below(loc)))
	r.root = platformPool(r.name, r.cidr, net)
	framework.Allocate(t, r.platform, r.root)
	r.platform.WaitWebhooks(t, r.tenant)
	framework.Eventually(t, "claims to be served by the chain", func(ctx context.Context) error {
		probe := r.endpoint("probe", "probe")
		err := r.tenant.Create(ctx, probe, client.DryRunAll)
		if held := refusedWith(err, 422, ipamv1alpha1.ReasonRangeNotHeld, "") == nil; !held && (err != nil || probe.Status.AllocatedCIDR == "") {
			return fmt.Errorf("a claim would be answered with %+v: %w", probe.Status, err)
		}
		return nil
	})
	return r
}

// network returns the claim that holds the range of a network, location that of the location, and endpoint a claim
// for an address there.
func (r *ranges) network() *ipamv1alpha1.IPClaim {
	return gen.Claim("vpc", gen.OfClass(r.name+"-net"), gen.ForRange(), gen.Within("network", "vpc"))
}

func (r *ranges) location() *ipamv1alpha1.IPClaim {
	return gen.Claim("vpc-ams", gen.OfClass(r.name+"-loc"), gen.ForRange(), gen.Within("network", "vpc", "location", "ams"))
}

func (r *ranges) endpoint(name, network string, options ...gen.ClaimOption) *ipamv1alpha1.IPClaim {
	return gen.Claim(name, append(options, gen.OfClass(r.name), gen.Within("network", network, "location", "ams"))...)
}

// gets creates claims, whose answers must show their blocks. On a busy machine kcp may not get the answer: then a
// claim gets its block a little later.
func (r *ranges) gets(claims ...*ipamv1alpha1.IPClaim) {
	r.Helper()
	for _, claim := range claims {
		err := framework.Patiently(r, func(ctx context.Context) error { return client.IgnoreAlreadyExists(r.tenant.Create(ctx, claim)) })
		if err != nil {
			r.Fatalf("CREATE of claim %s: %v; want its block", claim.Name, err)
		}
		if ready := meta.FindStatusCondition(claim.Status.Conditions, ipamv1alpha1.ConditionReady); ready != nil && ready.Status == metav1.ConditionFalse {
			r.Fatalf("CREATE of claim %s: %+v; want its block", claim.Name, claim.Status)
		}
		framework.WaitWhile(r, r.tenant, claim, "it has no block", func(claim *ipamv1alpha1.IPClaim) bool {
			return claim.Status.AllocatedCIDR == ""
		})
	}
}

// pool reads the pool from which a claim was served; nil: there is none.
func (r *ranges) pool(claim *ipamv1alpha1.IPClaim) *ipamv1alpha1.IPPool {
	r.Helper()
	pool := &ipamv1alpha1.IPPool{}
	err := r.tenant.Get(r.Context(), client.ObjectKey{Name: claim.Status.PoolRef.Name}, pool)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		r.Fatalf("GET of pool %s: %v", claim.Status.PoolRef.Name, err)
	}
	return pool
}

// gone deletes claims, one after the other. It fails the test unless each DELETE succeeds, and has deleted the pool
// of a range, too.
func (r *ranges) gone(claims ...*ipamv1alpha1.IPClaim) {
	r.Helper()
	for _, claim := range claims {
		if err := framework.Remove(r, r.tenant, claim); err != nil {
			r.Errorf("DELETE of claim %s: %v", claim.Name, err)
		}
		if claim.Spec.Target != ipamv1alpha1.TargetScopeRange {
			continue
		}
		if pool := r.pool(claim); pool != nil {
			r.Errorf("pool %s is there when the DELETE of its range claim has returned: %+v", pool.Name, pool.ObjectMeta)
		}
		if err := r.tenant.Get(r.Context(), client.ObjectKeyFromObject(claim), &ipamv1alpha1.IPClaim{}); !apierrors.IsNotFound(err) {
			r.Errorf("GET of claim %s after its DELETE: %v; want 404", claim.Name, err)
		}
	}
}

// A location, and then its network, can be released by the requests right after the release of the last address
// inside. The network can be made again at once, and released again.
func TestRanges_AreReleasedOneAfterTheOther(t *testing.T) {
	t.Parallel()
	r := newRanges(t)
	for i := range 3 {
		net, loc := r.network(), r.location()
		a, b := r.endpoint("a", "vpc"), r.endpoint("b", "vpc")
		r.gets(net, loc, a, b)
		if pool := r.pool(a); pool == nil || pool.Name != loc.Status.PoolRef.Name {
			t.Fatalf("round %d: the address is from %+v, want the pool of the location, %+v", i, a.Status.PoolRef, loc.Status.PoolRef)
		}
		r.gone(a, b, loc, net)
	}
	framework.WaitCondition(t, r.platform, r.root, ipamv1alpha1.ConditionInUse, ipamv1alpha1.ReasonUnused)
}

// A range with a claim inside is not deleted. The refusal is a Conflict that says who is inside, and the range's
// claim stays as it was.
func TestRanges_AreKeptWhileTheyAreUsed(t *testing.T) {
	t.Parallel()
	r := newRanges(t)
	net, loc := r.network(), r.location()
	a := r.endpoint("a", "vpc")
	kept := r.endpoint("kept", "vpc", gen.Reclaim(ipamv1alpha1.ReclaimRetain))
	r.gets(net, loc, a, kept)
	framework.WaitBound(t, r.tenant, kept)
	r.refuses(net, "claim default/a", "claim default/kept", "range claim default/vpc-ams")
	framework.Delete(t, r.tenant, a, kept)
	record := r.retained(kept)
	r.refuses(loc, "1 allocation", "IPAllocation default/"+record.Name)
	if err := r.tenant.Get(t.Context(), client.ObjectKeyFromObject(net), net); err != nil || net.Status.Phase != ipamv1alpha1.ClaimBound {
		t.Errorf("the claim that was not deleted is %+v, %v; want it bound", net.Status, err)
	}
	framework.Delete(t, r.tenant, record)
	r.gone(loc, net)
}

// refuses deletes a range claim. The DELETE must be refused with a Conflict that says all this.
func (r *ranges) refuses(claim *ipamv1alpha1.IPClaim, says ...string) {
	r.Helper()
	err := framework.Remove(r, r.tenant, claim)
	if apierrors.ReasonForError(err) != metav1.StatusReasonConflict {
		r.Errorf("DELETE of claim %s: %v; want a Conflict", claim.Name, err)
		return
	}
	for _, want := range append(says, "release everything allocated inside this range first") {
		if !strings.Contains(err.Error(), want) {
			r.Errorf("the refusal is %q; want it to say %q", err, want)
		}
	}
	if r.pool(claim) == nil {
		r.Errorf("the pool of claim %s is gone, though its DELETE was refused", claim.Name)
	}
}

// A range is deleted while an address inside is requested. Either the request is refused, or the address is from a
// pool that exists.
func TestRanges_ConcurrentDeleteLeavesNoAddressWithoutItsPool(t *testing.T) {
	t.Parallel()
	r := newRanges(t)
	deleted := 0
	for i := range 8 {
		net, inside := r.network(), r.endpoint("inside", "vpc")
		r.gets(net)
		var group sync.WaitGroup
		var deleteErr, createErr error
		group.Go(func() { deleteErr = r.tenant.Delete(t.Context(), net.DeepCopy()) })
		group.Go(func() { createErr = r.tenant.Create(t.Context(), inside) })
		group.Wait()
		switch {
		case deleteErr == nil:
			deleted++
		case apierrors.ReasonForError(deleteErr) != metav1.StatusReasonConflict && !apierrors.IsServiceUnavailable(deleteErr):
			t.Errorf("round %d: the DELETE: %v; want nil, or a Conflict", i, deleteErr)
		}
		if createErr != nil && !apierrors.IsServiceUnavailable(createErr) {
			t.Errorf("round %d: the CREATE: %v", i, createErr)
		}
		if createErr == nil {
			framework.WaitBound(t, r.tenant, inside)
			if r.pool(inside) == nil {
				t.Errorf("round %d: the address %s is from pool %s, which is not there", i, inside.Status.AllocatedCIDR, inside.Status.PoolRef.Name)
			}
			framework.Delete(t, r.tenant, inside)
		}
		if deleteErr != nil && createErr != nil { // on a busy server, a CREATE without an answer may have reserved an address, for 75 seconds
			framework.Within(t, framework.Patience+75*time.Second, "the reservation to end", func(ctx context.Context) error { return r.tenant.Delete(ctx, net) })
		} else if deleteErr != nil {
			r.gone(net)
		}
	}
	t.Logf("%d of 8 ranges were deleted before the address came", deleted)
}

// A tenant that leaves with networks in use is not held up, and nothing of the networks stays.
func TestRanges_GoWhenTheirTenantLeaves(t *testing.T) {
	t.Parallel()
	r := newRanges(t)
	r.gets(r.network(), r.location(), r.endpoint("a", "vpc"))
	framework.WaitCondition(t, r.platform, r.root, ipamv1alpha1.ConditionInUse, ipamv1alpha1.ReasonInUse)
	r.tenant.Unbind(t)
	framework.Within(t, 4*time.Minute, "the pool to be unused", func(ctx context.Context) error {
		if err := r.platform.Get(ctx, client.ObjectKeyFromObject(r.root), r.root); err != nil {
			return err
		}
		if r.root.Status.Capacity.Allocated != "0" {
			return fmt.Errorf("%s addresses are allocated: %+v", r.root.Status.Capacity.Allocated, meta.FindStatusCondition(r.root.Status.Conditions, ipamv1alpha1.ConditionInUse))
		}
		return nil
	})
}

// If all that is below a pool are unused pools, it can be deleted, and they go with it.
func TestRanges_LetIdlePoolsGoWithTheirRoot(t *testing.T) {
	t.Parallel()
	r := newRanges(t)
	a := r.endpoint("a", "vpc")
	r.gets(a)
	made := r.pool(a)
	framework.WaitCondition(t, r.platform, r.root, ipamv1alpha1.ConditionInUse, ipamv1alpha1.ReasonInUse)
	r.gone(a)
	framework.WaitCondition(t, r.platform, r.root, ipamv1alpha1.ConditionInUse, ipamv1alpha1.ReasonUnused)
	if r.pool(a) == nil {
		t.Error("the pool that nobody uses is gone before its time")
	}
	framework.Delete(t, r.platform, r.root)
	framework.WaitGone(t, r.platform, r.root)
	framework.WaitGone(t, r.tenant, made)
}

// No user can write a pool that calls itself made by the system, or change a pool that the system made, or delete one
// in use.
func TestRanges_LetOnlyTheSystemWriteTheirPools(t *testing.T) {
	t.Parallel()
	r := newRanges(t)
	net := r.network()
	r.gets(net)
	made := r.pool(net)
	forged := made.DeepCopy()
	forged.ObjectMeta = metav1.ObjectMeta{Name: "forged", Labels: forged.Labels}
	changed := made.DeepCopy()
	changed.Spec.Visibility = ipamv1alpha1.VisibilityPlatform
	for by, who := range map[string]client.WithWatch{"the tenant": r.tenant, "an admin": framework.Admin(t, r.tenant.Path)} {
		for what, err := range map[string]error{
			"CREATE": who.Create(t.Context(), forged.DeepCopy()), "PATCH": who.Patch(t.Context(), changed.DeepCopy(), client.MergeFrom(made)), "DELETE": who.Delete(t.Context(), made.DeepCopy()),
		} {
			if !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) && !apierrors.IsConflict(err) {
				t.Errorf("%s by %s: %v; want it to be refused", what, by, err)
			}
		}
	}
	if r.pool(net) == nil {
		t.Error("the pool is gone")
	}
	r.gone(net)
}
