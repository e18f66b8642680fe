package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode"

	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/workspaces"
)

// The owner of a workspace makes its binding show the path of another workspace. The owner's workspace loses its own
// path by that, and is not admitted by the other path. The workspace that showed the path first is served as before.
func TestHostile_AdmitsNobodyByAForgedPath(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	victim, owner := s.platform.Tenant(t), s.tenant.Owner(t)
	s.class()
	pool := platformPool(s.name, s.cidr, s.name)
	pool.Spec.Consumers = []ipamv1alpha1.Consumer{
		ipamv1alpha1.Consumer(victim.Path), ipamv1alpha1.Consumer(s.tenant.Path),
	}
	framework.Allocate(t, s.platform, pool)
	for _, tenant := range []client.Client{victim, s.tenant} {
		before := gen.Claim("before", gen.OfClass(s.name), gen.Length(28))
		framework.Create(t, tenant, before)
		framework.WaitBound(t, tenant, before)
	}

	showPath(t, owner, victim.Path)
	forger, _ := losesPath(t, s.tenant, s.name)
	framework.WaitAllocated(t, s.tenant, forger, ipamv1alpha1.ReasonNoOfferingPool)
	within := gen.Claim("within", gen.OfClass(s.name), gen.Length(28))
	framework.Create(t, victim, within)
	framework.WaitBound(t, victim, within)

	showPath(t, owner, s.platform.Path)
	framework.Create(t, s.tenant, gen.Claim("platform", gen.FromPool(s.name), gen.Length(28)))
	framework.WaitAllocated(t, s.tenant, gen.Claim("platform"), ipamv1alpha1.ReasonPoolNotFound)
	unchanged(t, s.tenant, forger)

	s.changePool(func(spec *ipamv1alpha1.IPPoolSpec) {
		spec.Consumers = []ipamv1alpha1.Consumer{ipamv1alpha1.Consumer(s.tenant.Cluster)}
	})
	framework.WaitBound(t, s.tenant, forger)
}

// losesPath waits until a workspace that shows another's path is no longer admitted by its own path. It returns the
// first claim that was refused for that, and the claims that were bound before.
func losesPath(t *testing.T, tenant client.Client, class string) (refused *ipamv1alpha1.IPClaim, served []*ipamv1alpha1.IPClaim) {
	t.Helper()
	framework.Eventually(t, "the forger's own path to name nobody", func(context.Context) error {
		refused = gen.Claim(fmt.Sprint("forger-", len(served)), gen.OfClass(class), gen.Length(28))
		framework.Create(t, tenant, refused)
		framework.WaitWhile(t, tenant, refused, "there is no answer", func(c *ipamv1alpha1.IPClaim) bool {
			return meta.FindStatusCondition(c.Status.Conditions, ipamv1alpha1.ConditionAllocated) == nil
		})
		if refused.Status.AllocatedCIDR != "" {
			served = append(served, refused)
			return errors.New("it names the forger still")
		}
		return nil
	})
	return refused, served
}

// Two workspaces that show one path are served from their own pools, and release them. Each can be deleted while the
// other exists, and leaves nothing allocated. Then the path belongs to the workspace that is left, which alone shows
// it.
func TestHostile_LetsWorkspacesThatShowOnePathGo(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	victim, owner := s.platform.Tenant(t), s.tenant.Owner(t)
	s.class()
	pool := platformPool(s.name, s.cidr, s.name)
	pool.Spec.Consumers = []ipamv1alpha1.Consumer{ipamv1alpha1.Consumer(victim.Path), ipamv1alpha1.Consumer(s.tenant.Path)}
	framework.Allocate(t, s.platform, pool)
	bindSome(t, victim, s.name, "before", 2)
	showPath(t, owner, victim.Path)
	refused, served := losesPath(t, s.tenant, s.name)

	for _, tenant := range []*framework.Tenant{victim, s.tenant} {
		own, gone := gen.Pool("own", gen.CIDR("10.0.0.0/24")), gen.Pool("gone", gen.CIDR("10.1.0.0/24"))
		claim := gen.Claim("own", gen.FromPool("own"), gen.Length(28))
		framework.Create(t, tenant, own, gone, claim)
		framework.WaitBound(t, tenant, claim)
		framework.Delete(t, tenant, gone)
		framework.WaitGone(t, tenant, gone)
	}
	victim.DeleteWorkspace(t)
	framework.WaitBound(t, s.tenant, refused)
	waitHeld(t, s.platform, pool, size(blocksOf(t, append(served, refused)...)...))
	s.tenant.DeleteWorkspace(t)
	waitHeld(t, s.platform, pool, size())
}

// showPath makes a workspace's binding show a path.
func showPath(t *testing.T, owner client.Client, path string) {
	t.Helper()
	annotate := merge(fmt.Sprintf(`{"metadata": {"annotations": {"kcp.io/path": %q}}}`, path))
	cluster, binding := &corev1alpha1.LogicalCluster{}, &apisv1alpha2.APIBinding{}
	cluster.Name, binding.Name = "cluster", workspaces.BindingName
	must.Do(t, owner.Patch(t.Context(), cluster, annotate))
	framework.Eventually(t, "the binding to show "+path, func(ctx context.Context) error {
		if err := owner.Patch(ctx, binding, annotate); err != nil {
			return err
		}
		if shown := binding.Annotations["kcp.io/path"]; shown != path {
			return fmt.Errorf("it shows %s", shown)
		}
		return nil
	})
}

// Objects that are made to break something get the same answers as other objects.
func TestHostile_AnswersOddObjects(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class()
	s.pool(s.cidr)
	giant := gen.Claim(strings.Repeat("x", 253), gen.OfClass(s.name), gen.Length(28))
	giant.Annotations = map[string]string{"giant": strings.Repeat("\u202e", 60_000)}
	giant.Labels = map[string]string{}
	for i := range 64 {
		giant.Labels[fmt.Sprintf("%s-%d", strings.Repeat("k", 60), i)] = strings.Repeat("v", 63)
	}
	giant.Status = ipamv1alpha1.IPClaimStatus{Phase: ipamv1alpha1.ClaimBound, AllocatedCIDR: "192.0.2.0/24"}
	loud := gen.Claim("loud", gen.OfClass("\x1b[31m\n{\"level\":\"error\"}"+strings.Repeat("\U0010ffff", 230)), gen.Length(28))
	framework.Create(t, s.tenant, giant, loud)
	framework.WaitBound(t, s.tenant, giant)
	disjointIn(t, s.cidr, blockOf(t, giant))
	if record := recordOf(t, s.tenant, giant); len(fmt.Sprint(record)) > 4096 {
		t.Errorf("the record of a giant takes %d bytes", len(fmt.Sprint(record)))
	}
	framework.WaitAllocated(t, s.tenant, loud, ipamv1alpha1.ReasonClassNotFound)
	message := meta.FindStatusCondition(loud.Status.Conditions, ipamv1alpha1.ConditionAllocated).Message
	if len(message) > 1024 || strings.ContainsFunc(message, unicode.IsControl) {
		t.Errorf("the message is %q", message)
	}

	same := gen.Pool(s.name, gen.CIDR(s.cidr), gen.Backs("other"))
	below := gen.Pool("below", gen.ChildOf(s.name, 24), gen.Reserves(1, 1, 64)) // no such length in IPv4
	stolen := gen.Pool("stolen", gen.ChildOf(s.name, 24))
	stolen.Spec.ParentPoolRef.ProjectRef = &ipamv1alpha1.ProjectRef{Name: s.platform.Path}
	framework.Create(t, s.tenant, same, below, stolen)
	framework.WaitAllocated(t, s.tenant, same, ipamv1alpha1.ReasonAllocationSucceeded)
	framework.WaitAllocated(t, s.tenant, below, ipamv1alpha1.ReasonAllocationSucceeded)
	framework.WaitAllocated(t, s.tenant, stolen, ipamv1alpha1.ReasonPoolNotFound)

	for i, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan} {
		claim := s.holds(fmt.Sprint("held-", i), gen.Length(28))
		must.Do(t, s.tenant.Delete(t.Context(), claim, client.PropagationPolicy(policy)))
		framework.WaitGone(t, s.tenant, claim)
	}
	waitHeld(t, s.platform, gen.Pool(s.name), size(blockOf(t, giant)))
}

// A tenant's claims name owners that are objects of another tenant, or of the platform. They are ordinary claims,
// each with a block of its own. What happens to the claims does not affect these owners, and the reverse.
func TestHostile_IgnoresForgedOwners(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class()
	pool := s.pool(s.cidr)
	victim := s.platform.Tenant(t)
	theirs := gen.Claim("web", gen.OfClass(s.name), gen.Length(28))
	framework.Bind(t, victim, theirs)
	record := recordOf(t, victim, theirs)

	group := ipamv1alpha1.GroupName
	garbage := gen.Claim("garbage", gen.OfClass(s.name), gen.Length(28))
	forged := map[string]*ipamv1alpha1.IPClaim{}
	for name, owner := range map[string]ipamv1alpha1.OwnerRef{
		theirs.Name: {APIGroup: group, Kind: "IPClaim", Namespace: theirs.Namespace, Name: theirs.Name, UID: theirs.UID},
		"record":    {APIGroup: group, Kind: "IPAllocation", Namespace: record.Namespace, Name: record.Name, UID: record.UID},
		"pool":      {APIGroup: group, Kind: "IPPool", Name: pool.Name, UID: pool.UID},
	} {
		claim := s.holds(name, gen.Length(28), gen.OwnedBy(owner))
		own := recordOf(t, s.tenant, claim)
		if ref := own.Spec.ClaimRef; ref == nil || ref.UID != claim.UID || own.Spec.OwnerRef == nil || *own.Spec.OwnerRef != owner {
			t.Errorf("the record of claim %s is of claim %+v, owned by %+v", name, ref, own.Spec.OwnerRef)
		}
		forged[name] = claim
		garbage.OwnerReferences = append(garbage.OwnerReferences, metav1.OwnerReference{
			APIVersion: ipamv1alpha1.GroupVersion.String(), Kind: owner.Kind, Name: owner.Name, UID: owner.UID, BlockOwnerDeletion: new(true),
		})
	}
	framework.Create(t, s.tenant, garbage)
	disjointIn(t, s.cidr, blockOf(t, theirs), blockOf(t, forged["web"]), blockOf(t, forged["record"]), blockOf(t, forged["pool"]))

	// The garbage collector of Kubernetes may have been faster.
	if err := s.tenant.Delete(t.Context(), garbage); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	framework.Delete(t, s.tenant, forged["web"])
	for _, claim := range []*ipamv1alpha1.IPClaim{garbage, forged["web"]} {
		framework.WaitGone(t, s.tenant, claim)
	}
	waitHeld(t, s.platform, pool, size(blockOf(t, theirs), blockOf(t, forged["record"]), blockOf(t, forged["pool"])))
	unchanged(t, victim, theirs)
	if now := recordOf(t, victim, theirs); now.ResourceVersion != record.ResourceVersion {
		t.Errorf("the other's record was written:\nbefore %+v\nafter  %+v", record, now)
	}

	must.Do(t, victim.Delete(t.Context(), theirs, client.PropagationPolicy(metav1.DeletePropagationForeground)))
	framework.WaitGone(t, victim, theirs)
	waitHeld(t, s.platform, pool, size(blockOf(t, forged["record"]), blockOf(t, forged["pool"])))
	for _, name := range []string{"record", "pool"} {
		unchanged(t, s.tenant, forged[name])
	}
}
