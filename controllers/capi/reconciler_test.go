package capi

import (
	"context"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	capiv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// If a claim is missing in the cache, but exists, it keeps its address, even while its IPAddress is being deleted.
func TestAbandoned_KeepsTheAddressOfAClaimThatOnlyTheCacheLacks(t *testing.T) {
	claim, address, held := served()
	s := newScene(t, lab(), claim, address, held)
	testbed.Delete(t, s.Management, address)
	s.hidden[claim] = true
	s.reconcile(claim)
	if s.wants("of a claim that is there", held); !s.has(address) {
		t.Error("the IPAddress of a claim that is there is gone")
	}
}

// The address of a claim that is gone is given back when the IPAddress is deleted, and no earlier.
func TestAbandoned_WaitsUntilTheIPAddressIsDeleted(t *testing.T) {
	claim, address, held := served()
	s := newScene(t, lab(), address, held)
	s.reconcile(claim)
	s.wants("of an IPAddress that is not deleted", address, held)
	testbed.Delete(t, s.Management, address)
	s.reconcile(claim)
	s.lacks("of a deleted IPAddress", address, held)
}

// When a claim is deleted, its objects that the cache does not show yet are deleted, too.
func TestRelease_DeletesObjectsThatTheCacheLacks(t *testing.T) {
	claim, address, held := served()
	s := newScene(t, lab(), claim, address, held)
	s.hidden[address], s.hidden[held] = true, true
	testbed.Delete(t, s.Management, claim)
	s.reconcile(claim)
	s.lacks("of a deleted claim", claim, address, held)
}

// The address stays taken while a finalizer of others holds the IPAddress.
func TestRelease_WaitsForAnIPAddressThatOthersHold(t *testing.T) {
	claim, address, held := served()
	address.Finalizers = append(address.Finalizers, "example.com/machine")
	s := newScene(t, lab(), claim, address, held)
	testbed.Delete(t, s.Management, claim)
	s.reconcile(claim)
	if s.wants("while its IPAddress is there", held); !s.has(claim) || !s.has(address) {
		t.Fatal("the claim, or the IPAddress that another holds, is gone")
	}
	address.Finalizers = nil
	testbed.Update(t, s.Management, address)
	s.reconcile(claim)
	s.lacks("without its IPAddress", claim, held)
}

// If the server has an IPAddress that the cache lacks, its address is the one that is claimed.
func TestClaim_AsksForAnAddressThatTheCacheLacks(t *testing.T) {
	claim := machine("web")
	address := published(claim, "192.0.2.7")
	s := newScene(t, lab(), claim, address)
	s.hidden[address] = true
	s.reconcile(claim)
	made := inPlace.newClaim(claim)
	if !s.has(made) || made.Spec.Address != "192.0.2.7" || made.Spec.PrefixLength != 32 {
		t.Errorf("the IPClaim asks for %q, of length %d; want 192.0.2.7, of 32", made.Spec.Address, made.Spec.PrefixLength)
	}
}

// If an object is in the way, the claim says so, and the object stays as it is.
func TestClaim_ReportsAndKeepsAnObjectInItsWay(t *testing.T) {
	claim, other := machine("web"), machine("other")
	foreign := bound(other, "192.0.2.9")
	foreign.Name = claimName(claim.Name)
	elsewhere := bound(claim, "192.0.2.9")
	elsewhere.Spec.PoolRef.Name = "office"
	network := bound(claim, "")
	network.Status.AllocatedCIDR = "192.0.2.0/28"
	stray := published(claim, "192.0.2.9")
	stray.Spec.ClaimRef.Name = "other"
	for name, tt := range map[string]struct {
		claim   *ipamv1alpha1.IPClaim
		address *capiv1.IPAddress
		says    string
		foreign bool // of others: no watch shows when it goes
	}{
		"an IPClaim of another":      {foreign, nil, "is not of this IPAddressClaim", true},
		"an IPClaim of another pool": {elsewhere, nil, "is of another pool", false},
		"an IPClaim of a network":    {network, nil, "is not one address", false},
		"an IPAddress of another":    {bound(claim, "192.0.2.9"), stray, "is of IPAddressClaim other", true},
		"another address":            {bound(claim, "192.0.2.9"), published(claim, "192.0.2.7"), "holds 192.0.2.9", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, lab(), claim.DeepCopy(), tt.claim.DeepCopy())
			if tt.address != nil {
				testbed.Create(t, s.Management, tt.address.DeepCopy())
			}
			if after := s.reconcile(claim).RequeueAfter; (after > 0) != tt.foreign {
				t.Errorf("the claim is tried again after %s; want that only for an object of others: %t", after, tt.foreign)
			}
			ready := s.ready(claim.DeepCopy())
			if ready.Status != metav1.ConditionFalse || ready.Reason != capiv1.IPAddressClaimReadyAllocationFailedReason || !strings.Contains(ready.Message, tt.says) {
				t.Errorf("Ready is %s, %s: %s; want AllocationFailed, and that it %s", ready.Status, ready.Reason, ready.Message, tt.says)
			}
		})
	}
}

// If an IPClaim was deleted before it had an address, it never gets one. So it is let go, and made again, with the
// address of the IPAddress if there is one.
func TestClaim_ReplacesAnIPClaimThatWasDeletedUnbound(t *testing.T) {
	for _, address := range []string{"", "192.0.2.7"} {
		claim := machine("web")
		waits := inPlace.newClaim(claim)
		waits.Spec.Address = address
		s := newScene(t, lab(), claim, waits)
		if address != "" {
			testbed.Create(t, s.Management, published(claim, address))
		}
		testbed.Delete(t, s.Management, waits)
		s.reconcile(claim)
		s.reconcile(claim)
		made := inPlace.newClaim(claim)
		if s.wants("a second IPClaim", made); made.Spec.Address != address {
			t.Errorf("the IPClaim asks for %q; want %q", made.Spec.Address, address)
		}
	}
}

// If the poolRef of an IPAddressClaim was changed to a pool of another provider, the address is given back when the
// IPAddressClaim is deleted. The webhooks of Cluster API refuse such a change, but may be away.
func TestRelease_WorksAfterThePoolRefChangesProvider(t *testing.T) {
	claim, address, held := served()
	claim.Spec.PoolRef = capiv1.IPPoolReference{APIGroup: capiv1.GroupVersion.Group, Kind: "InClusterIPPool", Name: "lab"}
	s := newScene(t, lab(), claim, address, held)
	s.reconcile(claim)
	s.wants("of a claim that is there", address, held)
	testbed.Delete(t, s.Management, claim)
	if !s.has(claim) || !ofOurs.Generic(event.GenericEvent{Object: claim}) {
		t.Fatal("events of the claim are not seen, and its finalizer holds it")
	}
	s.reconcile(claim)
	s.lacks("of a deleted claim", claim, address, held)
}

// An address may be written in several forms.
func TestClaim_AcceptsAnAddressInAnyForm(t *testing.T) {
	six := lab()
	six.Spec.CIDR, six.Status.AllocatedCIDR, six.Status.IPFamily = "2001:db8::/64", "2001:db8::/64", ipamv1alpha1.IPv6
	for form, tt := range map[string]struct {
		pool *ipamv1alpha1.IPPool
		want string
	}{
		"2001:DB8::0:7":    {six, "2001:db8::7"},
		"::ffff:192.0.2.7": {lab(), "192.0.2.7"},
	} {
		claim := machine("web")
		s := newScene(t, tt.pool, claim, published(claim, form))
		s.reconcile(claim)
		made := inPlace.newClaim(claim)
		if !s.has(made) || made.Spec.Address != tt.want {
			t.Errorf("the IPClaim of %s asks for %q; want %s", form, made.Spec.Address, tt.want)
			continue
		}
		made.Status = bound(claim, tt.want).Status
		testbed.Update(t, s.Management, made)
		s.reconcile(claim)
		if ready := s.ready(claim); ready.Status != metav1.ConditionTrue {
			t.Errorf("Ready of %s is %s, %s: %s; want True", form, ready.Status, ready.Reason, ready.Message)
		}
	}
}

// An IPAddress that was made by hand may have an address that no IPClaim can ask for. The IPAddressClaim says so.
func TestClaim_SaysThatAnAddressCannotBeClaimed(t *testing.T) {
	claim := machine("web")
	s := newScene(t, lab(), claim, published(claim, "fe80::7%eth0"))
	s.Claims.Client = interceptor.NewClient(s.Claims.Client.(client.WithWatch), interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, object client.Object, _ ...client.CreateOption) error {
			return apierrors.NewInvalid(ipamv1alpha1.GroupVersion.WithKind("IPClaim").GroupKind(), object.GetName(), nil)
		},
	})
	if _, err := s.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(claim)}); err != nil {
		t.Fatalf("Reconcile returns %v; want the reason in the status", err)
	}
	if ready := s.ready(claim); ready.Reason != capiv1.IPAddressClaimReadyAllocationFailedReason || !strings.Contains(ready.Message, "cannot be made") {
		t.Errorf("Ready is %s, %s: %s; want AllocationFailed, and that the IPClaim cannot be made", ready.Status, ready.Reason, ready.Message)
	}
}
