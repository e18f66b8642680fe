package e2e

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A cluster without kcp is served as the only workspace there is, through restarts of
// the controller and whatever went while it was away.
func TestStandalone(t *testing.T) {
	t.Parallel()
	cluster := framework.NewStandalone(t, sweeping...)
	cluster.StartController(t)
	name, cidr := framework.Name(t), cluster.CIDR(t)
	pool := offer(t, cluster, name, cidr, gen.DefaultLength(28))
	own := gen.Pool("own", gen.CIDR("192.0.2.0/24"))
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "short-lived"}}
	framework.Create(t, cluster, own, namespace)

	stays, goes := gen.Claim("stays", gen.OfClass(name)), gen.Claim("goes", gen.OfClass(name))
	missed := gen.Claim("missed", gen.OfClass(name))
	inside := gen.Claim("inside", gen.OfClass(name), gen.Namespace(namespace.Name))
	retained := gen.Claim("retained", gen.FromPool("own"), gen.Length(28), gen.Reclaim(ipamv1alpha1.ReclaimRetain))
	framework.Create(t, cluster, stays, goes, missed, inside, retained)
	framework.WaitBound(t, cluster, stays, goes, missed, inside, retained)
	if ref := stays.Status.PoolRef; ref.Name != name || ref.ProjectRef != nil {
		t.Errorf("the claim shows the pool %v; want %s, of no other workspace", ref, name)
	}
	framework.Delete(t, cluster, goes, retained)
	waitUnrecorded(t, cluster, "goes")
	record := recordOf(t, cluster, retained)
	framework.WaitFor(t, cluster, record, func(record *ipamv1alpha1.IPAllocation) error {
		if record.Spec.ClaimRef != nil {
			return errors.New("it is not retained yet")
		}
		return nil
	})

	cluster.KillController(t)
	framework.Delete(t, cluster, missed, namespace)
	framework.WaitGone(t, cluster, namespace)
	cluster.StartController(t)
	next := gen.Claim("next", gen.OfClass(name))
	framework.Create(t, cluster, next)
	framework.WaitBound(t, cluster, stays, next)
	waitHeld(t, cluster, pool, size(blockOf(t, stays), blockOf(t, next)))
	waitHeld(t, cluster, own, size(blockOf(t, retained)))
	cluster.WaitVerified(t)
	framework.Delete(t, cluster, record)
	waitHeld(t, cluster, own, size())
}

// Refusals are told as ever, what is the system's stays the system's, and slices have
// nobody to go to.
func TestStandalone_SaysNo(t *testing.T) {
	t.Parallel()
	cluster := framework.NewStandalone(t)
	cluster.StartController(t)
	sliced := gen.Pool("sliced", gen.CIDR("192.0.2.0/24"), gen.Slices(28))
	claim := gen.Claim("lost", gen.OfClass("none"))
	elsewhere := gen.Claim("elsewhere", gen.FromPoolIn("root:other", "sliced"), gen.Length(28))
	framework.Create(t, cluster, sliced, claim, elsewhere)
	framework.WaitAllocated(t, cluster, claim, ipamv1alpha1.ReasonClassNotFound)
	framework.WaitAllocated(t, cluster, elsewhere, ipamv1alpha1.ReasonPoolNotFound)
	framework.WaitCondition(t, cluster, sliced, ipamv1alpha1.ConditionSliced, ipamv1alpha1.ReasonSlicesGiven)
	waitHeld(t, cluster, sliced, size())

	owner := cluster.User(t, "cluster-admin")
	framework.Eventually(t, "the event of the refusal", func(ctx context.Context) error {
		events := &corev1.EventList{}
		if err := owner.List(ctx, events, client.InNamespace(claim.Namespace)); err != nil {
			return err
		}
		for _, event := range events.Items {
			if event.InvolvedObject.UID == claim.UID && event.Reason == string(ipamv1alpha1.ReasonClassNotFound) {
				return nil
			}
		}
		return errors.New("there is none")
	})
	bound := merge(`{"status": {"phase": "Bound", "allocatedCIDR": "192.0.2.0/28"}}`)
	if err := owner.Status().Patch(t.Context(), written(claim), bound); !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) {
		t.Errorf("an admin forges a status: %v; want a refusal", err)
	}
	if err := owner.Create(t.Context(), gen.Allocation("forged", "sliced", "192.0.2.0/28")); !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) {
		t.Errorf("an admin forges an allocation: %v; want a refusal", err)
	}
}

// The command line works on a cluster without kcp.
func TestStandalone_CLI(t *testing.T) {
	t.Parallel()
	cluster := framework.NewStandalone(t)
	cluster.StartController(t)
	c := cli{cluster.CLI(t, "ipam-class-admin", "ipam-pool-admin"), t}
	c.run("pool", "create", "lab", "--cidr", "192.0.2.0/24").ends(0)
	if got := c.ok("claim", "create", "web", "--pool", "lab", "--length", "28", "--quiet"); got != "192.0.2.0/28\n" {
		t.Errorf("the claim has %q", got)
	}
	shows(t, c.ok("pool", "tree"), "lab", "192.0.2.0/24")
	shows(t, c.ok("pool", "show", "lab"), "192.0.2.0/28", "claim default/web")
	shows(t, c.ok("address", "show", "192.0.2.5"), "192.0.2.0/28", "claim default/web")
	c.run("claim", "create", "lost", "--class", "none", "--wait=1s").ends(4)
	shows(t, c.ok("why", "lost"), "ClassNotFound")
	c.run("claim", "release", "lost").ends(0)
	c.run("verify").ends(0).says("1 claims and 1 allocations agree")
	c.run("claim", "release", "web").ends(0)
}
