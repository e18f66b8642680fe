package e2e

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/workspaces"
)

// A cluster without kcp is served like a single workspace. The tests share one Kubernetes and its controller. They
// run in order, use different names, and leave the controller as their comment says.
func TestStandalone(t *testing.T) {
	t.Parallel()
	cluster := framework.NewStandalone(t, sweeping...)
	for _, tt := range []struct {
		name string
		test func(*testing.T, *framework.Platform)
	}{
		{"Upgrade", standaloneUpgrade}, // starts the controller
		{"Restart", standaloneRestart},
		{"Start", standaloneStart},
		{"Namespace", standaloneNamespace},
		{"GarbageCollection", standaloneGarbageCollection},
		{"Apply", standaloneApply},
		{"Refusals", standaloneRefusals},
		{"Forgery", standaloneForgery},
		{"Roles", standaloneRoles},
		{"CLI", standaloneCLI},
		{"Webhooks", standaloneWebhooks},
		{"WebhooksOfAService", standaloneService}, // ends the controller, and runs another one
		{"Token", standaloneToken},                // runs another controller
		{"Tenants", standaloneTenants},            // the same, with another ledger
	} {
		t.Run(tt.name, func(t *testing.T) { tt.test(t, cluster) })
	}
}

// Claims keep their blocks through restarts of the controller. The blocks of claims that went while it was away are
// freed.
func standaloneRestart(t *testing.T, cluster *framework.Platform) {
	name, cidr := framework.Name(t), cluster.CIDR(t)
	pool := offer(t, cluster, name, cidr, gen.DefaultLength(28))
	own := gen.Pool("own", gen.CIDR("192.0.2.0/24"))
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "short-lived"}}
	framework.Create(t, cluster, own, namespace)

	stays, goes := gen.Claim("stays", gen.OfClass(name)), gen.Claim("goes", gen.OfClass(name))
	missed := gen.Claim("missed", gen.OfClass(name))
	inside := gen.Claim("inside", gen.OfClass(name), gen.Namespace(namespace.Name))
	kept := gen.Claim("retained", gen.FromPool("own"), gen.Length(28), gen.Reclaim(ipamv1alpha1.ReclaimRetain))
	framework.Bind(t, cluster, stays, goes, missed, inside, kept)
	if ref := stays.Status.PoolRef; ref.Name != name || ref.ProjectRef != nil {
		t.Errorf("the claim shows the pool %v; want %s, of no other workspace", ref, name)
	}
	framework.Delete(t, cluster, goes, kept)
	waitUnrecorded(t, cluster, "goes")
	record := retained(t, cluster, kept)

	cluster.KillController(t)
	framework.Delete(t, cluster, missed, namespace)
	framework.WaitGone(t, cluster, namespace)
	cluster.StartController(t)
	next := gen.Claim("next", gen.OfClass(name))
	framework.Create(t, cluster, next)
	framework.WaitBound(t, cluster, stays, next)
	waitHeld(t, cluster, pool, size(blockOf(t, stays), blockOf(t, next)))
	waitHeld(t, cluster, own, size(blockOf(t, kept)))
	cluster.WaitVerified(t)
	framework.Delete(t, cluster, record)
	waitHeld(t, cluster, own, size())
}

// Refusals are reported as on kcp, only the system writes its own objects, and there is nobody to get slices.
func standaloneRefusals(t *testing.T, cluster *framework.Platform) {
	sliced := gen.Pool("sliced", gen.CIDR("198.51.100.0/24"), gen.Slices(28))
	claim := gen.Claim("lost", gen.OfClass("none"))
	elsewhere := gen.Claim("elsewhere", gen.FromPoolIn("root:other", "sliced"), gen.Length(28))
	framework.Create(t, cluster, sliced, claim, elsewhere)
	framework.WaitAllocated(t, cluster, claim, ipamv1alpha1.ReasonClassNotFound)
	framework.WaitAllocated(t, cluster, elsewhere, ipamv1alpha1.ReasonPoolNotFound)
	framework.WaitCondition(t, cluster, sliced, ipamv1alpha1.ConditionSliced, ipamv1alpha1.ReasonSlicesGiven)
	waitHeld(t, cluster, sliced, size())

	owner := cluster.User(t, "cluster-admin")
	waitEvent(t, owner, claim, ipamv1alpha1.ReasonClassNotFound)
	bound := merge(`{"status": {"phase": "Bound", "allocatedCIDR": "192.0.2.0/28"}}`)
	if err := owner.Status().Patch(t.Context(), written(claim), bound); !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) {
		t.Errorf("an admin forges a status: %v; want a refusal", err)
	}
	if err := owner.Create(t.Context(), gen.Allocation("forged", "sliced", "192.0.2.0/28")); !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) {
		t.Errorf("an admin forges an allocation: %v; want a refusal", err)
	}
}

// The command line works on a cluster without kcp.
func standaloneCLI(t *testing.T, cluster *framework.Platform) {
	c := cli{cluster.CLI(t, "ipam-class-admin", "ipam-pool-admin"), t}
	c.run("pool", "create", "lab", "--cidr", "203.0.113.0/24").ends(0)
	if got := c.ok("claim", "create", "web", "--pool", "lab", "--length", "28", "--quiet"); got != "203.0.113.0/28\n" {
		t.Errorf("the claim has %q", got)
	}
	shows(t, c.ok("pool", "tree"), "lab", "203.0.113.0/24")
	shows(t, c.ok("pool", "show", "lab"), "203.0.113.0/28", "claim default/web")
	shows(t, c.ok("address", "show", "203.0.113.5"), "203.0.113.0/28", "claim default/web")
	c.run("claim", "create", "lost", "--class", "none", "--wait=15s").ends(4)
	shows(t, c.ok("tenant", "list", "-o", "csv"), "TENANT,CLAIMS,WAITING,POOLS\n", "default,")
	shows(t, c.ok("why", "lost"), "ClassNotFound")
	c.run("claim", "release", "lost").ends(0)
	c.run("claim", "release", "web").ends(0)

	admin := cli{cluster.CLI(t, "cluster-admin"), t}
	admin.as("zoe", "claim", "create", "web", "--pool", "lab", "--length", "28").ends(3).says("kubectl ipam grant ipam-consumer --user zoe --namespace default")
	admin.run("grant", "ipam-consumer", "--user", "zoe").ends(2).says("give --namespace NAME, or --all-namespaces")
	shows(t, admin.ok("grant", "ipam-consumer", "--user", "zoe", "-n", "default", "--dry-run=server", "-o", "json"), "ipam-class-viewer")
	for range 2 {
		admin.run("grant", "ipam-consumer", "--user", "zoe", "--namespace", "default").ends(0).says("rolebinding/ipam:consumer:user:zoe in the namespace default")
	}
	admin.soon("zoe", "claim", "create", "web", "--pool", "lab", "--length", "28")
	admin.as("zoe", "class", "list").ends(0)
	admin.as("zoe", "claim", "list", "-A").ends(3).says("kubectl ipam grant ipam-viewer --user zoe --all-namespaces")
	admin.as("zoe", "claim", "release", "web").ends(0)
}

// Here the rights of an admin have no upper bound: only policies refuse.
func standaloneForgery(t *testing.T, cluster *framework.Platform) {
	name := framework.Name(t)
	pool, claim := gen.Pool(name, gen.CIDR(cluster.CIDR(t))), gen.Claim("forged", gen.FromPool(name), gen.Length(28))
	framework.Create(t, cluster, pool, claim)
	framework.WaitBound(t, cluster, claim)
	f := newForger(t, "an admin", cluster.UserConfig(t, "cluster-admin"))
	f.creates(attacksOnCreate)
	f.changes(claim, attacksOnChange)
}

// The API server asks the webhooks at their URL, and CREATE returns the block.
func standaloneWebhooks(t *testing.T, cluster *framework.Platform) {
	cluster.WaitWebhooks(t, cluster)
	standaloneAnswer(t, cluster, cluster.CIDR(t))
}

// The API server asks the webhooks at a Service. There is no kube-proxy: the controller itself listens at the
// Service's cluster IP.
func standaloneService(t *testing.T, cluster *framework.Platform) {
	port := must.Get(strconv.ParseInt(cluster.WebhookPort(t), 10, 32))(t)
	cluster.StopController(t)
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: workspaces.ControllerNamespace, Name: "ipam-webhook"},
		Spec:       corev1.ServiceSpec{ClusterIP: framework.ServiceAddress, Ports: []corev1.ServicePort{{Port: int32(port)}}},
	}
	admin := cluster.Admin(t)
	framework.Create(t, admin, service)
	cidr := cluster.CIDR(t)
	cluster = cluster.Reconfigured(t,
		fmt.Sprintf("--webhook-bind-address=%s:%d", framework.ServiceAddress, port),
		fmt.Sprintf("--webhook-service=%s/%s:%d", service.Namespace, service.Name, port))
	cluster.StartController(t)
	configuration := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: ipamv1alpha1.GroupName}}
	framework.WaitFor(t, admin, configuration, func(configuration *admissionregistrationv1.MutatingWebhookConfiguration) error {
		for _, webhook := range configuration.Webhooks {
			if webhook.ClientConfig.Service == nil || webhook.ClientConfig.Service.Name != service.Name {
				return fmt.Errorf("webhook %s is not at the Service", webhook.Name)
			}
		}
		return nil
	})
	cluster.WaitAsked(t, cluster)
	standaloneAnswer(t, cluster, cidr)
}

// standaloneAnswer fails the test unless CREATE returns a block, and the webhooks are asked exactly once.
func standaloneAnswer(t *testing.T, cluster *framework.Platform, cidr ipamv1alpha1.CIDR) {
	t.Helper()
	name := framework.Name(t)
	offer(t, cluster, name, cidr, gen.DefaultLength(28))
	asked := cluster.AnswersGiven(t)
	claim := gen.Claim(name, gen.OfClass(name))
	framework.Create(t, cluster, claim)
	if claim.Status.Phase != ipamv1alpha1.ClaimBound || claim.Status.AllocatedCIDR == "" {
		t.Errorf("CREATE returns the status %+v; want a block", claim.Status)
	}
	if got := cluster.AnswersGiven(t) - asked; got != 1 {
		t.Errorf("the webhook was asked %d times, want once", got)
	}
	framework.WaitBound(t, cluster, claim)
}

// A cluster with the first definitions is upgraded to those of today. Its objects stay as they are, without a write.
// Then the controller is restarted, and everything goes on.
func standaloneUpgrade(t *testing.T, cluster *framework.Platform) {
	admin := cluster.AdminConfig(t)
	must.Do(t, workspaces.Apply(t.Context(), admin, os.DirFS("testdata/upgrade/crd")))
	first := cluster.Reconfigured(t, append([]string{"--webhook-bind-address=0"}, sweeping...)...) // CREATE had no answer then
	first.StartController(t)
	name := framework.Name(t)
	pool := offer(t, cluster, name, cluster.CIDR(t), gen.DefaultLength(28))
	before := []*ipamv1alpha1.IPClaim{gen.Claim("before-1", gen.OfClass(name)), gen.Claim("before-2", gen.OfClass(name))}
	framework.Create(t, cluster, before[0], before[1])
	framework.WaitBound(t, cluster, before...)
	waitHeld(t, cluster, pool, size(blocksOf(t, before...)...))
	if pool.Status.Ledger != nil {
		t.Fatalf("the first definitions keep status.ledger, %+v, which came later", pool.Status.Ledger)
	}
	was := stored(t, cluster)

	must.Do(t, workspaces.BootstrapStandalone(t.Context(), admin, func(string) {}))
	first.StopController(t)
	cluster.StartController(t)
	next := gen.Claim("next-upgraded", gen.OfClass(name))
	framework.Bind(t, cluster, next)
	is := stored(t, cluster)
	for object, version := range was {
		if is[object] != version {
			t.Errorf("%s was written: it is at %q; want %q", object, is[object], version)
		}
	}
	framework.Delete(t, cluster, next)
	waitUnrecorded(t, cluster, next.Name)
	waitHeld(t, cluster, pool, size(blocksOf(t, before...)...))
	cluster.WaitVerified(t)
}

// The usual roles of Kubernetes get the rights that the API's roles add to them.
func standaloneRoles(t *testing.T, cluster *framework.Platform) {
	name := framework.Name(t)
	offer(t, cluster, name, cluster.CIDR(t), gen.DefaultLength(28))
	viewer, editor := cluster.User(t, "view"), cluster.User(t, "edit")
	claim := gen.Claim(name, gen.OfClass(name))
	if err := viewer.Create(t.Context(), claim.DeepCopy()); !apierrors.IsForbidden(err) {
		t.Errorf("a user with the role view creates a claim: %v; want Forbidden", err)
	}
	framework.Create(t, editor, claim)
	framework.WaitBound(t, viewer, claim)
	if err := editor.Create(t.Context(), gen.Pool("theirs")); !apierrors.IsForbidden(err) {
		t.Errorf("a user with the role edit creates a pool: %v; want Forbidden", err)
	}
	framework.Delete(t, editor, claim)
}

// stored returns the claims and the records that a client reads, each with its UID and version.
func stored(t *testing.T, c client.Reader) map[string]string {
	t.Helper()
	claims, records := &ipamv1alpha1.IPClaimList{}, &ipamv1alpha1.IPAllocationList{}
	must.Do(t, errors.Join(c.List(t.Context(), claims), c.List(t.Context(), records)))
	versions := map[string]string{}
	note := func(object client.Object) {
		versions[fmt.Sprintf("%T %s", object, object.GetName())] = string(object.GetUID()) + " " + object.GetResourceVersion()
	}
	for i := range claims.Items {
		note(&claims.Items[i])
	}
	for i := range records.Items {
		note(&records.Items[i])
	}
	return versions
}

// If a namespace is deleted, its claims and records go with it, even retained records, and all their blocks are
// freed. The claims of another namespace keep theirs.
func standaloneNamespace(t *testing.T, cluster *framework.Platform) {
	name := framework.Name(t)
	pool := offer(t, cluster, name, cluster.CIDR(t), gen.DefaultLength(28))
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "leaves"}}
	framework.Create(t, cluster, namespace)
	stays := gen.Claim("beside-namespace", gen.OfClass(name))
	goes := gen.Claim("goes", gen.OfClass(name), gen.Namespace(namespace.Name))
	kept := gen.Claim("retained", gen.OfClass(name), gen.Namespace(namespace.Name), gen.Reclaim(ipamv1alpha1.ReclaimRetain))
	framework.Bind(t, cluster, stays, goes, kept)
	framework.Delete(t, cluster, kept)
	retained(t, cluster, kept)

	framework.Delete(t, cluster, namespace)
	framework.WaitGone(t, cluster, namespace)
	waitHeld(t, cluster, pool, size(blockOf(t, stays)))
	cluster.WaitVerified(t)
}

// If the owner of a claim is deleted, the garbage collector deletes the claim, and its block is freed.
func standaloneGarbageCollection(t *testing.T, cluster *framework.Platform) {
	name := framework.Name(t)
	pool := offer(t, cluster, name, cluster.CIDR(t), gen.DefaultLength(28))
	admin := cluster.Admin(t)
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "owner"}}
	framework.Create(t, admin, owner)
	stays, goes := gen.Claim("unowned", gen.OfClass(name)), gen.Claim("owned", gen.OfClass(name))
	goes.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}}
	framework.Bind(t, cluster, stays, goes)
	waitHeld(t, cluster, pool, size(blocksOf(t, stays, goes)...))

	framework.Delete(t, admin, owner)
	framework.WaitGone(t, cluster, goes)
	waitHeld(t, cluster, pool, size(blockOf(t, stays)))
	waitUnrecorded(t, cluster, "owned")
	cluster.WaitVerified(t)
}
