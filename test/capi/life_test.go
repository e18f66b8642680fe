package capi

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	capiv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// An IPAddress or IPClaim that a user deletes stays until its IPAddressClaim is gone.
func protected(t *testing.T, s *scene) {
	s.offer(t, s.pool(t, "protected"))
	machine := claim("protected", "IPPool", "protected")
	framework.Create(t, s, machine)
	address := s.address(t, machine)
	held, _ := s.ipClaim(t, machine)
	framework.Delete(t, s, address)
	framework.Delete(t, s.pools, held)
	waits := claim("waits-for-protected", "IPPool", "protected")
	framework.Create(t, s, waits)
	s.refused(t, waits, capiv1.IPAddressClaimReadyPoolExhaustedReason)
	if got := s.address(t, machine); got.UID != address.UID {
		t.Errorf("IPAddress %s was made again", got.Name)
	}
	s.release(t, machine)
	s.address(t, waits)
	s.release(t, waits)
}

// strip removes the finalizers of an object, as clusterctl does with objects that it has moved.
func (s *scene) strip(t *testing.T, object client.Object) {
	t.Helper()
	must.Do(t, s.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
}

// clusterctl moves claims and their IPAddresses here, while their Cluster is paused. The claims keep their addresses,
// and no other claim gets these meanwhile.
func movedHere(t *testing.T, s *scene) {
	start, _, cidr := s.network(t, 28)
	pool := gen.Pool("target", gen.CIDR(cidr))
	s.offer(t, pool)
	cluster, machine := workload("moved", true), claimOf("moved", "moved", "target")
	framework.Create(t, s, cluster, machine)
	address := &capiv1.IPAddress{
		ObjectMeta: machine.ObjectMeta,
		Spec: capiv1.IPAddressSpec{
			ClaimRef: capiv1.IPAddressClaimReference{Name: "moved"}, PoolRef: machine.Spec.PoolRef,
			Address: start + "0", Prefix: new(int32(28)),
		},
	}
	address.UID, address.ResourceVersion = "", ""
	framework.Create(t, s, address)
	scaled := claim("scaled", "IPPool", "target")
	framework.Create(t, s, scaled)
	if got := s.address(t, scaled).Spec.Address; got != start+"1" {
		t.Errorf("the claim that came after the move has %s; want %s1, as the first one is in use", got, start)
	}
	s.pause(t, cluster, false)
	got := s.address(t, machine)
	owners := 2
	if s.beside {
		owners = 1
	}
	if got.UID != address.UID || len(got.OwnerReferences) != owners || len(got.Finalizers) != 1 || got.Labels[clusterv1.ClusterNameLabel] != "moved" {
		t.Errorf("the IPAddress that was moved is %+v; want it completed, with %d owners, a finalizer and the label", got.ObjectMeta, owners)
	}
	if found, _ := s.ipClaim(t, machine); found.Status.Address != start+"0" {
		t.Errorf("the IPClaim holds %q; want %s0", found.Status.Address, start)
	}
	s.release(t, machine, scaled)
}

// clusterctl deletes what it has moved away, and removes the finalizers. Then the address is free.
func movedAway(t *testing.T, s *scene) {
	s.offer(t, s.pool(t, "origin"))
	cluster, machine := workload("leaves", false), claimOf("leaves", "leaves", "origin")
	framework.Create(t, s, cluster, machine)
	address := s.address(t, machine)
	s.pause(t, cluster, true)
	for _, object := range []client.Object{address, machine} {
		s.strip(t, object)
		framework.Delete(t, s, object)
		framework.WaitGone(t, s, object)
	}
	next := claim("next", "IPPool", "origin")
	framework.Create(t, s, next)
	if got := s.address(t, next).Spec.Address; got != address.Spec.Address {
		t.Errorf("the next claim has %s; want %s", got, address.Spec.Address)
	}
	s.nothingLeft(t, machine)
	s.release(t, next)
}

// A controller that is killed in the middle of its work leaves nothing behind, and gives no address twice.
func killed(t *testing.T, s *scene) {
	_, _, cidr := s.network(t, 24)
	pool := gen.Pool("killed", gen.CIDR(cidr))
	s.offer(t, pool)
	of := map[string]string{}
	var stay, leave []*capiv1.IPAddressClaim
	for round := range 4 {
		for i := range 6 {
			machine := claim(fmt.Sprintf("killed-%d-%d", round, i), "IPPool", "killed")
			framework.Create(t, s, machine)
			if i%2 == 0 {
				stay = append(stay, machine)
				continue
			}
			leave = append(leave, machine)
		}
		s.address(t, stay[len(stay)-3]) // the controller is still serving the others
		for _, machine := range leave[len(leave)-3:] {
			framework.Delete(t, s, machine)
		}
		s.controller.KillController(t)
		s.controller.StartController(t)
	}
	for _, machine := range stay {
		address := s.address(t, machine).Spec.Address
		if other, taken := of[address]; taken {
			t.Errorf("%s and %s have %s", machine.Name, other, address)
		}
		of[address] = machine.Name
	}
	for _, machine := range leave {
		framework.WaitGone(t, s, machine)
		s.nothingLeft(t, machine)
	}
	framework.Within(t, servedWithin, "the addresses of claims that are gone", func(ctx context.Context) error {
		if err := s.pools.Get(ctx, client.ObjectKeyFromObject(pool), pool); err != nil {
			return err
		}
		if got := pool.Status.Capacity.Allocated; got != fmt.Sprint(len(stay)) {
			return fmt.Errorf("%s addresses are allocated; want %d, of the claims that stay", got, len(stay))
		}
		return nil
	})
	s.release(t, stay...)
}

// A claim of a Cluster that does not exist waits for the Cluster. If the claim is deleted, it does not wait.
func missingCluster(t *testing.T, s *scene) {
	s.offerMany(t, "clusterless")
	early := claimOf("late", "early", "clusterless")
	labelled := claim("labelled", "IPPool", "clusterless")
	labelled.Labels = map[string]string{clusterv1.ClusterNameLabel: "late"}
	framework.Create(t, s, early, labelled)
	s.passed(t, "after-early", "clusterless")
	s.untouched(t, early)
	s.untouched(t, labelled)
	late := workload("late", false)
	framework.Create(t, s, late)
	s.address(t, early)
	s.address(t, labelled)
	framework.Delete(t, s, late)
	framework.WaitGone(t, s, late)
	s.release(t, early, labelled)
}

// A claim of a paused Cluster waits until the Cluster is no longer paused.
func paused(t *testing.T, s *scene) {
	s.offer(t, s.pool(t, "paused"))
	cluster, machine := workload("paused", true), claimOf("paused", "paused", "paused")
	framework.Create(t, s, cluster, machine)
	s.passed(t, "after-paused", "paused")
	s.untouched(t, machine)
	s.pause(t, cluster, false)
	s.address(t, machine)
	s.release(t, machine)
}

// A claim of a paused Cluster keeps its address while it is being deleted.
func pausedWhileDeleted(t *testing.T, s *scene) {
	s.offerMany(t, "resting")
	cluster, machine := workload("resting", false), claimOf("resting", "resting", "resting")
	framework.Create(t, s, cluster, machine)
	s.address(t, machine)
	s.pause(t, cluster, true)
	s.passed(t, "after-pause", "resting")
	framework.Delete(t, s, machine)
	s.passed(t, "after-deletion", "resting")
	s.address(t, machine)
	s.pause(t, cluster, false)
	framework.WaitGone(t, s, machine)
	s.nothingLeft(t, machine)
}

// The annotation cluster.x-k8s.io/paused on an IPAddressClaim pauses that IPAddressClaim. On a Cluster, it pauses the
// IPAddressClaims of the Cluster.
func pausedByAnnotation(t *testing.T, s *scene) {
	s.offer(t, s.pool(t, "annotated"))
	cluster := workload("annotated", false)
	cluster.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
	machine := claimOf("annotated", "annotated", "annotated")
	machine.Annotations = map[string]string{clusterv1.PausedAnnotation: "true"}
	framework.Create(t, s, cluster, machine)
	s.passed(t, "after-both", "annotated")
	s.untouched(t, machine)
	framework.Update(t, s, machine, func(machine *capiv1.IPAddressClaim) { machine.Annotations = nil })
	s.passed(t, "after-claim", "annotated")
	s.untouched(t, machine)
	framework.Update(t, s, cluster, func(cluster *clusterv1.Cluster) { cluster.Annotations = nil })
	s.address(t, machine)
	s.release(t, machine)
}

// The annotation on a pool pauses its claims.
func poolPaused(t *testing.T, s *scene) {
	pool := s.pool(t, "pool-paused")
	metav1.SetMetaDataAnnotation(&pool.ObjectMeta, clusterv1.PausedAnnotation, "")
	s.offer(t, pool)
	s.offer(t, s.pool(t, "beside"))
	machine := claim("pool-paused", "IPPool", "pool-paused")
	framework.Create(t, s, machine)
	s.passed(t, "after-pool", "beside")
	s.untouched(t, machine)
	framework.Read(t, s.pools, pool)
	framework.Update(t, s.pools, pool, func(pool *ipamv1alpha1.IPPool) { pool.Annotations = nil })
	s.address(t, machine)
	s.release(t, machine)
}
