//go:build long

package capi

import (
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	capiv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// With pools in a workspace of kcp, the contract holds as far as possible. The tests share one workspace and two
// management clusters. They stop kcp and the clusters in between, so no other test runs meanwhile.
func TestLong_Workspace(t *testing.T) {
	platform := framework.NewPlatform(t).Reconfigured(t, "--sweep-interval=500ms", "--orphan-min-age=1s")
	platform.StartController(t)
	tenant := platform.Tenant(t)
	account := consumer(t, tenant)
	first, second := newSceneBeside(t, tenant, account, platform), newSceneBeside(t, tenant, account, platform)
	for _, tt := range []struct {
		name string
		test func(*testing.T, *scene)
	}{
		{"Bind", bind},
		{"Class", classBeside},
		{"Parallel", parallel},
		{"Exhausted", exhausted},
		{"MissingPool", missingPool},
		{"MissingCluster", missingCluster},
		{"Paused", paused},
		{"PausedWhileDeleted", pausedWhileDeleted},
		{"PoolPaused", poolPaused},
		{"Protected", protected},
		{"Label", label},
		{"MovedHere", movedHere},
		{"MovedAway", movedAway},
		{"MovedAwayUnseen", movedAwayUnseen},
		{"Others", others},
		{"Killed", killed},
		{"Check", checked},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.test(t, first) })
	}
	t.Run("Namesakes", func(t *testing.T) { namesakes(t, first, second) })
	t.Run("Namespace", func(t *testing.T) { namespaced(t, second) })
	t.Run("ManagementAway", func(t *testing.T) { managementAway(t, first, second) })
	t.Run("WorkspaceAway", func(t *testing.T) { workspaceAway(t, first, second) })
	left := &ipamv1alpha1.IPClaimList{}
	if err := tenant.List(t.Context(), left); err != nil || len(left.Items) > 0 {
		t.Errorf("all IPAddressClaims are gone, and %d IPClaims are left: %v", len(left.Items), err)
	}
	platform.WaitVerified(t)
}

// consumer returns the access of a service account that may make claims in the workspace of a tenant.
func consumer(t *testing.T, tenant *framework.Tenant) *rest.Config {
	t.Helper()
	owner := clientOf(t, tenant.OwnerConfig(t))
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "machines"}}
	framework.Create(t, owner, account, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "machines"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "ipam-consumer"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: account.Namespace, Name: account.Name}},
	})
	token := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(24 * 60 * 60))}}
	must.Do(t, owner.SubResource("token").Create(t.Context(), account, token))
	access := rest.AnonymousClientConfig(tenant.Config())
	access.BearerToken = token.Status.Token
	return access
}

// newSceneBeside returns a management cluster whose pools are in the workspace of a tenant. Its controller starts
// before Cluster API is installed.
func newSceneBeside(t *testing.T, tenant *framework.Tenant, account *rest.Config, platform *framework.Platform) *scene {
	t.Helper()
	management := framework.NewManagement(t, account)
	management.StartController(t)
	s := &scene{
		Client: clientOf(t, management.AdminConfig(t)), admin: management.AdminConfig(t), controller: management, platform: platform,
		pools: tenant.WithWatch, beside: true, management: management,
	}
	s.install(t)
	return s
}

// A class of the platform leads to the pools of the workspace that serve it. Pools of the platform, whose gateways
// cannot be read, are not used.
func classBeside(t *testing.T, s *scene) {
	_, gateway, cidr := s.network(t, 30)
	framework.Create(t, s.platform, gen.Class("machines", gen.DefaultLength(32)))
	machine, more := claim("class", "IPClass", "machines"), claim("class-more", "IPClass", "machines")
	framework.Create(t, s, machine)
	s.refused(t, machine, capiv1.IPAddressClaimReadyPoolNotReadyReason)
	s.offer(t, gen.Pool("backs", gen.CIDR(cidr), gen.Gateway(gateway, 0), gen.Backs("machines")))
	if got := s.address(t, machine).Spec; got.Gateway != gateway || *got.Prefix != 30 {
		t.Errorf("the IPAddress is %+v; want one of the pool with the gateway %s", got, gateway)
	}
	_, _, far := s.network(t, 28)
	framework.Create(t, s.platform, gen.Pool("far", gen.CIDR(far), gen.Backs("machines"), gen.Visible(ipamv1alpha1.VisibilityPlatform)))
	framework.Create(t, s, more)
	s.refused(t, more, capiv1.IPAddressClaimReadyAllocationFailedReason)
	s.release(t, machine, more)
}

// If the label by which an IPClaim is found is removed, the controller puts it back.
func label(t *testing.T, s *scene) {
	s.offer(t, s.pool(t, "label"))
	machine := claim("label", "IPPool", "label")
	framework.Create(t, s, machine)
	s.address(t, machine)
	held, _ := s.ipClaim(t, machine)
	framework.Update(t, s.pools, held, func(held *ipamv1alpha1.IPClaim) { held.Labels = nil })
	framework.WaitWhile(t, s.pools, held, "it lacks the label of "+s.origin(t), func(held *ipamv1alpha1.IPClaim) bool {
		return held.Labels["ipam.miloapis.com/management-cluster"] != s.origin(t)
	})
	s.release(t, machine)
}

// If clusterctl moves claims away while the controller is down, the controller releases them when it starts.
func movedAwayUnseen(t *testing.T, s *scene) {
	s.offer(t, s.pool(t, "unseen"))
	machine := claim("unseen", "IPPool", "unseen")
	framework.Create(t, s, machine)
	address := s.address(t, machine)
	s.controller.KillController(t)
	for _, object := range []client.Object{address, machine} {
		s.strip(t, object)
		framework.Delete(t, s, object)
		framework.WaitGone(t, s, object)
	}
	s.controller.StartController(t)
	held, found := s.ipClaim(t, machine)
	if found {
		framework.WaitGone(t, s.pools, held)
	}
	s.nothingLeft(t, machine)
}

// With --namespace, the controller serves the claims of that namespace. A claim in another namespace gets no address,
// and one that is deleted there keeps its address. Without the flag, both are served.
func namespaced(t *testing.T, s *scene) {
	s.offerMany(t, "scope")
	framework.Create(t, s, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere"}})
	leaves, waits := claim("leaves", "IPPool", "scope"), claim("waits", "IPPool", "scope")
	leaves.Namespace, waits.Namespace = "elsewhere", "elsewhere"
	framework.Create(t, s, leaves)
	kept := s.address(t, leaves).Spec.Address
	s.management.RestartController(t, "--namespace=default")
	framework.Create(t, s, waits)
	framework.Delete(t, s, leaves)
	s.passed(t, "served", "scope")
	s.untouched(t, waits)
	if got := s.address(t, leaves).Spec.Address; got != kept {
		t.Errorf("the claim of another namespace that is deleted has %s; want %s, as before", got, kept)
	}
	if held, found := s.ipClaim(t, leaves); !found || held.DeletionTimestamp != nil || held.Status.Address != kept {
		t.Errorf("its IPClaim is %+v; want one that holds %s", held, kept)
	}
	s.management.RestartController(t)
	framework.WaitGone(t, s, leaves)
	s.nothingLeft(t, leaves)
	s.address(t, waits)
	s.release(t, waits)
}
