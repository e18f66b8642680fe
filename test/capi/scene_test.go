package capi

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	capiv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// scene is the management cluster. It is a client of the cluster's admin, who acts as Cluster API's own controllers.
type scene struct {
	client.Client
	admin *rest.Config
	// controller gives machines their addresses.
	controller controller
	// platform is the platform that has the ledger.
	platform *framework.Platform
	// pools is a client of the place of IPPools and IPClaims: the management cluster, or a workspace.
	pools client.WithWatch
	// beside is set if the pools are in a workspace. Then management is the cluster.
	beside     bool
	management *framework.Management
}

// controller is a process that can be killed and started again.
type controller interface {
	StartController(t testing.TB)
	KillController(t testing.TB)
}

// newScene returns a management cluster that is the platform, too.
func newScene(t *testing.T, cluster *framework.Platform) *scene {
	t.Helper()
	s := &scene{admin: cluster.AdminConfig(t), controller: cluster, platform: cluster}
	s.pools = clientOf(t, s.admin)
	s.Client = s.pools
	return s
}

// clientOf returns a client that knows all kinds.
func clientOf(t *testing.T, access *rest.Config) client.WithWatch {
	t.Helper()
	scheme := must.Get(controllers.Scheme())(t)
	return must.Get(client.NewWithWatch(access, client.Options{Scheme: scheme}))(t)
}

// offer makes a pool and waits until it has its block.
func (s *scene) offer(t *testing.T, pool *ipamv1alpha1.IPPool) {
	t.Helper()
	framework.Allocate(t, s.pools, pool)
}

// offerMany makes a pool with 16 addresses, and waits until it has its block.
func (s *scene) offerMany(t *testing.T, name string) {
	t.Helper()
	_, _, cidr := s.network(t, 28)
	s.offer(t, gen.Pool(name, gen.CIDR(cidr)))
}

// pool returns a pool of four addresses: address 1 is its gateway, and only address 2 can be given.
func (s *scene) pool(t *testing.T, name string) *ipamv1alpha1.IPPool {
	t.Helper()
	_, gateway, cidr := s.network(t, 30)
	return gen.Pool(name, gen.CIDR(cidr), gen.Gateway(gateway, 0))
}

// network returns address space that no other test uses, of a prefix length: its first three bytes, its gateway and
// its CIDR.
func (s *scene) network(t *testing.T, length int) (start, gateway string, cidr ipamv1alpha1.CIDR) {
	t.Helper()
	var a, b int
	must.Get(fmt.Sscanf(string(s.platform.CIDR(t)), "%d.%d.", &a, &b))(t)
	start = fmt.Sprintf("%d.%d.0.", a, b)
	return start, start + "1", ipamv1alpha1.CIDR(fmt.Sprintf("%s0/%d", start, length))
}

// claim returns an IPAddressClaim for a pool of ours.
func claim(name, kind, pool string) *capiv1.IPAddressClaim {
	return &capiv1.IPAddressClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Spec: capiv1.IPAddressClaimSpec{
			PoolRef: capiv1.IPPoolReference{APIGroup: ipamv1alpha1.GroupName, Kind: kind, Name: pool},
		},
	}
}

// claimOf returns an IPAddressClaim of a Cluster, for an IPPool.
func claimOf(cluster, name, pool string) *capiv1.IPAddressClaim {
	made := claim(name, "IPPool", pool)
	made.Spec.ClusterName = cluster
	return made
}

// workload returns a Cluster.
func workload(name string, paused bool) *clusterv1.Cluster {
	return &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Spec:       clusterv1.ClusterSpec{Paused: &paused},
	}
}

// pause sets spec.paused of a Cluster.
func (s *scene) pause(t *testing.T, cluster *clusterv1.Cluster, paused bool) {
	t.Helper()
	framework.Update(t, s, cluster, func(cluster *clusterv1.Cluster) { cluster.Spec.Paused = &paused })
}

// servedWithin is how long a claim may wait for an address that another claim has released. If a CREATE was not
// answered in time, as on a busy machine, its block is kept for 75 seconds.
const servedWithin = 3 * time.Minute

// address waits until a claim is Ready, and returns its IPAddress.
func (s *scene) address(t *testing.T, claim *capiv1.IPAddressClaim) *capiv1.IPAddress {
	t.Helper()
	framework.Within(t, servedWithin, "the address of IPAddressClaim "+claim.Name, func(ctx context.Context) error {
		if err := s.Get(ctx, client.ObjectKeyFromObject(claim), claim); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(claim.Status.Conditions, capiv1.IPAddressClaimReadyCondition) {
			return fmt.Errorf("it is not Ready: %+v", claim.Status.Conditions)
		}
		return nil
	})
	address := &capiv1.IPAddress{}
	key := client.ObjectKey{Namespace: claim.Namespace, Name: claim.Status.AddressRef.Name}
	if err := s.Get(t.Context(), key, address); err != nil {
		t.Fatalf("IPAddressClaim %s is Ready: %v", claim.Name, err)
	}
	return address
}

// refused waits until a claim gives the reason why it has no address.
func (s *scene) refused(t *testing.T, claim *capiv1.IPAddressClaim, reason string) {
	t.Helper()
	framework.WaitFor(t, s, claim, func(claim *capiv1.IPAddressClaim) error {
		ready := meta.FindStatusCondition(claim.Status.Conditions, capiv1.IPAddressClaimReadyCondition)
		if ready == nil || ready.Status != metav1.ConditionFalse || ready.Reason != reason {
			return fmt.Errorf("it is not refused for %s", reason)
		}
		return nil
	})
}

// ipClaim reads the IPClaim of an IPAddressClaim; false if there is none.
func (s *scene) ipClaim(t *testing.T, claim *capiv1.IPAddressClaim) (*ipamv1alpha1.IPClaim, bool) {
	t.Helper()
	list := &ipamv1alpha1.IPClaimList{}
	opts := []client.ListOption{client.InNamespace(metav1.NamespaceDefault)}
	if s.beside {
		opts = append(opts, client.MatchingLabels{"ipam.miloapis.com/management-cluster": s.origin(t)})
	}
	must.Do(t, s.pools.List(t.Context(), list, opts...))
	for i := range list.Items {
		ref := list.Items[i].Spec.OwnerRef
		if ref != nil && ref.Kind == "IPAddressClaim" && ref.Namespace == claim.Namespace && ref.Name == claim.Name {
			return &list.Items[i], true
		}
	}
	return &ipamv1alpha1.IPClaim{}, false
}

// origin returns the identity of the management cluster.
func (s *scene) origin(t *testing.T) string {
	t.Helper()
	system := &corev1.Namespace{}
	must.Do(t, s.Get(t.Context(), client.ObjectKey{Name: metav1.NamespaceSystem}, system))
	return string(system.UID)
}

// untouched fails the test if the controller has written anything for a claim. Call passed before, so that the
// controller has reconciled the claim.
func (s *scene) untouched(t *testing.T, claim *capiv1.IPAddressClaim) {
	t.Helper()
	framework.Read(t, s, claim)
	if len(claim.Finalizers) > 0 || len(claim.Status.Conditions) > 0 {
		t.Errorf("IPAddressClaim %s is to be left alone, and has the finalizers %q and the conditions %v", claim.Name, claim.Finalizers, claim.Status.Conditions)
	}
	if found, ok := s.ipClaim(t, claim); ok {
		t.Errorf("IPAddressClaim %s is to be left alone, and has IPClaim %s", claim.Name, found.Name)
	}
}

// passed waits until the controller has served a claim that was made after all others, and releases its address.
func (s *scene) passed(t *testing.T, name, pool string) {
	t.Helper()
	probe := claim(name, "IPPool", pool)
	framework.Create(t, s, probe)
	s.address(t, probe)
	s.release(t, probe)
}

// release deletes claims and waits until nothing is left of them.
func (s *scene) release(t *testing.T, claims ...*capiv1.IPAddressClaim) {
	t.Helper()
	for _, claim := range claims {
		framework.Delete(t, s, claim)
	}
	for _, claim := range claims {
		framework.WaitGone(t, s, claim)
		s.nothingLeft(t, claim)
	}
}

// nothingLeft fails the test if a deleted claim has left anything behind.
func (s *scene) nothingLeft(t *testing.T, claim *capiv1.IPAddressClaim) {
	t.Helper()
	address := &capiv1.IPAddress{}
	if err := s.Get(t.Context(), client.ObjectKeyFromObject(claim), address); !apierrors.IsNotFound(err) {
		t.Errorf("IPAddressClaim %s is gone, its IPAddress is not: %v", claim.Name, err)
	}
	if found, ok := s.ipClaim(t, claim); ok {
		t.Errorf("IPAddressClaim %s is gone, IPClaim %s is not", claim.Name, found.Name)
	}
}
