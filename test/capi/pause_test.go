package capi

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	capiv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A claim of a Cluster that is not there waits for it. One that is deleted does not.
func missingCluster(t *testing.T, s *scene) {
	_, _, cidr := s.network(t, 28)
	s.offer(t, gen.Pool("clusterless", gen.CIDR(cidr)))
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

// A claim of a paused Cluster waits until it is not.
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
	_, _, cidr := s.network(t, 28)
	s.offer(t, gen.Pool("resting", gen.CIDR(cidr)))
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

// The annotation pauses a claim by itself, and a Cluster.
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
