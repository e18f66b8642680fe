package capi

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	capiv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// beside returns a scene with IPClaims in a workspace, made for the management cluster "one". The server says that it is
// the management cluster with this origin.
func beside(t *testing.T, origin types.UID, objects ...client.Object) *scene {
	t.Helper()
	system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: origin}}
	s := newScene(t, append(objects, lab(), system)...)
	s.Claims.Names = Names{Origin: "one", Namespace: "machines"}
	s.reach(1000)
	return s
}

// If a claim is gone, its address is given back only if the server is that of the claim's management cluster.
func TestAbandoned_BelievesNoOtherManagementCluster(t *testing.T) {
	claim := machine("web")
	held := Names{Origin: "one", Namespace: "machines"}.newClaim(claim)
	request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(claim)}

	elsewhere := beside(t, "other", held.DeepCopy())
	if _, err := elsewhere.Reconcile(t.Context(), request); err == nil || !elsewhere.has(held.DeepCopy()) {
		t.Errorf("a server that is not that of the management cluster is believed: %v", err)
	}
	here := beside(t, "one", held.DeepCopy())
	if _, err := here.Reconcile(t.Context(), request); err != nil || here.has(held.DeepCopy()) {
		t.Errorf("the IPClaim of a claim that is gone is kept: %v", err)
	}
}

// If an IPAddress of the same name comes while the former one is deleted, as when clusterctl moves to and fro, the new
// one is left alone.
func TestAbandoned_SparesANewIPAddressOfTheName(t *testing.T) {
	claim := machine("web")
	before, after := published(claim, "192.0.2.7"), published(claim, "192.0.2.7")
	s := newScene(t, lab(), before)
	testbed.Delete(t, s.Management, before)
	came := false
	s.reads(func(read func() error, _ client.ObjectKey, object client.Object) error {
		err := read()
		if _, asked := object.(*capiv1.IPAddress); !asked || came {
			return err
		}
		came = true
		before := object.DeepCopyObject().(client.Object)
		before.SetFinalizers(nil)
		return errors.Join(err, s.Management.Update(t.Context(), before), s.Management.Create(t.Context(), after))
	})
	s.reconcile(claim)
	if s.wants("that came", after); len(after.Finalizers) != 1 {
		t.Errorf("the IPAddress that came has the finalizers %q; want it as it came", after.Finalizers)
	}
}

// If a server does not serve IPAddressClaims, this does not show that one of them is gone.
func TestAbandoned_BelievesNoServerWithoutTheKind(t *testing.T) {
	claim := machine("web")
	held := bound(claim, "192.0.2.7")
	s := newScene(t, lab(), held)
	s.reads(func(read func() error, key client.ObjectKey, object client.Object) error {
		if _, asked := object.(*capiv1.IPAddressClaim); asked {
			return apierrors.NewGenericServerResponse(404, "get", capiv1.GroupVersion.WithResource("ipaddressclaims").GroupResource(), key.Name, "404 page not found", 0, true)
		}
		return read()
	})
	if _, err := s.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(claim)}); err == nil {
		t.Error("a server that does not serve IPAddressClaims is believed")
	}
	s.wants("of a claim that may be there", held)
}

// A label that was removed is put back: without it, the claim would not be watched.
func TestHold_RestoresTheLabel(t *testing.T) {
	claim := machine("web")
	s := beside(t, "one", claim)
	held := s.Claims.Names.newClaim(claim)
	held.Labels = nil
	testbed.Create(t, s.Claims, held)
	s.reconcile(claim)
	if !s.has(held) || held.Labels[LabelOrigin] != "one" {
		t.Errorf("the labels of the IPClaim are %v; want that of the management cluster", held.Labels)
	}
}

// IPAddressClaims outside the scope are left alone, and do not delay others.
func TestScope_LeavesOtherClaimsAlone(t *testing.T) {
	ours, unlabelled, elsewhere := machine("ours"), machine("unlabelled"), elsewhere("elsewhere")
	ours.Labels = map[string]string{clusterv1.WatchLabel: "edge"}
	elsewhere.Labels = ours.Labels
	s := newScene(t, lab(), ours, unlabelled, elsewhere, published(unlabelled, "192.0.2.1"), published(elsewhere, "192.0.2.2"))
	s.Management.Scope = Scope{Namespace: "default", Filter: "edge"}
	for _, claim := range []*capiv1.IPAddressClaim{unlabelled, elsewhere, ours} {
		s.reconcile(claim)
	}
	s.wants("of the scope, while addresses outside of it have no IPClaim", inPlace.newClaim(ours))
	s.lacks("not of the scope", inPlace.newClaim(unlabelled), inPlace.newClaim(elsewhere))
}

// An IPAddressClaim of a namespace outside the scope is not read: the cache lacks that namespace, and would return an
// error. Yet its IPClaim is seen if another controller has made it for the same management cluster.
func TestScope_ReadsNoOtherNamespace(t *testing.T) {
	s := beside(t, "one")
	held := s.Claims.Names.newClaim(elsewhere("web"))
	testbed.Create(t, s.Claims, held)
	s.Management.Scope = Scope{Namespace: "default"}
	s.Management.Client = interceptor.NewClient(s.Management.Client.(client.WithWatch), interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
			return fmt.Errorf("unable to get: %v because of unknown namespace for the cache", key)
		},
	})
	for _, request := range s.Claims.Names.toConsumer(t.Context(), held) {
		if _, err := s.Reconcile(t.Context(), request); err != nil {
			t.Errorf("%s is reconciled: %v; want it left alone", request, err)
		}
	}
	s.wants("of a claim of another namespace", held)
}

// A claim that has its address keeps it, and is Ready, even if no pool backs its class any more. This is how a pool is
// emptied.
func TestClass_KeepsAddressesWhenNoPoolBacksIt(t *testing.T) {
	claim := machine("web")
	claim.Spec.PoolRef.Kind, claim.Spec.PoolRef.Name = kindClass, "machines"
	for what, s := range map[string]*scene{
		"a class of a workspace":      beside(t, "one", claim.DeepCopy(), published(claim, "192.0.2.7")),
		"a class of the same cluster": newScene(t, lab(), claim.DeepCopy(), published(claim, "192.0.2.7")),
	} {
		held := s.Claims.Names.newClaim(claim)
		held.Status = bound(claim, "192.0.2.7").Status
		held.Status.PoolRef.Name = "lab"
		testbed.Create(t, s.Claims, held)
		s.reconcile(claim)
		if ready := s.ready(claim); ready.Status != metav1.ConditionTrue {
			t.Errorf("%s: Ready is %s, %s: %s; want True", what, ready.Status, ready.Reason, ready.Message)
		}
	}
}

// A class is paused if all pools that back it are paused, in whatever order the cache lists them.
func TestClass_IsPausedIfAllItsPoolsAre(t *testing.T) {
	claim := machine("web")
	claim.Spec.PoolRef.Kind, claim.Spec.PoolRef.Name = kindClass, "machines"
	s := beside(t, "one", claim)
	var pools []*ipamv1alpha1.IPPool
	for _, name := range []string{"a", "b"} {
		pool := lab()
		pool.Name, pool.Spec.ClassNames = name, []string{"machines"}
		pool.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
		testbed.Create(t, s.Claims, pool)
		pools = append(pools, pool)
	}
	s.reconcile(claim)
	s.lacks("though all pools of the class are paused", s.Claims.Names.newClaim(claim))
	pools[1].Annotations = nil
	must.Do(t, s.Claims.Update(t.Context(), pools[1]))
	s.reconcile(claim)
	s.wants("though one pool of the class is not paused", s.Claims.Names.newClaim(claim))
}

// In a workspace, a class is served only by a pool of the workspace that backs it.
func TestClass_NeedsAPoolOfTheWorkspace(t *testing.T) {
	claim := machine("web")
	claim.Spec.PoolRef.Kind, claim.Spec.PoolRef.Name = kindClass, "machines"
	s := beside(t, "one", claim)
	s.reconcile(claim)
	if ready := s.ready(claim); ready.Reason != capiv1.IPAddressClaimReadyPoolNotReadyReason || !strings.Contains(ready.Message, "spec.classNames") {
		t.Errorf("without a pool that backs the class the claim says %s: %s", ready.Reason, ready.Message)
	}
	pool := lab()
	if !s.has(pool) {
		t.Fatal("the pool is gone")
	}
	pool.Spec.ClassNames = []string{"machines"}
	testbed.Update(t, s.Claims, pool)
	s.reconcile(claim)
	made := s.Claims.Names.newClaim(claim)
	if !s.has(made) || made.Spec.ClassName != "machines" || made.Spec.PrefixLength != 32 {
		t.Errorf("the IPClaim is %+v; want one of the class, of length 32", made.Spec)
	}
}
