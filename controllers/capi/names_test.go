package capi

import (
	"cmp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
	capiv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// The IPClaims of any two IPAddressClaims differ in their names, in one management cluster and across several that
// share a workspace.
func TestNames_AreUnique(t *testing.T) {
	long := strings.Repeat("a", validation.DNS1123SubdomainMaxLength)
	dotted := strings.Repeat("a.", validation.DNS1123SubdomainMaxLength/2) + "a"
	seen := map[client.ObjectKey]string{}
	for _, names := range []Names{inPlace, {Origin: "one", Namespace: "machines"}, {Origin: "other", Namespace: "machines"}} {
		for _, key := range []client.ObjectKey{
			{Namespace: "a", Name: "web"}, {Namespace: "b", Name: "web"}, {Namespace: "a", Name: "b-web"}, {Namespace: "a-b", Name: "web"},
			{Namespace: "a", Name: "web.example"}, {Namespace: "a", Name: dotted}, {Namespace: "a", Name: dotted[2:]},
			{Namespace: "a", Name: long[5:]}, {Namespace: "a", Name: long[4:]}, {Namespace: "a", Name: long[1:]},
			{Namespace: "a", Name: long}, {Namespace: "a", Name: long[1:] + "b"},
		} {
			what := string(names.Origin) + " " + key.String()
			got := names.claim(key)
			if errs := validation.IsDNS1123Subdomain(got.Name); len(errs) > 0 || got.Namespace != cmp.Or(names.Namespace, key.Namespace) {
				t.Errorf("the IPClaim of %s is %s: %v", what, got, errs)
			}
			if before, taken := seen[got]; taken {
				t.Errorf("the IPClaims of %s and %s are %s", what, before, got)
			}
			seen[got] = what
		}
	}
}

// An IPClaim of one management cluster never belongs to an IPAddressClaim of another one, whatever its label says.
func TestNames_TellManagementClustersApart(t *testing.T) {
	one, other := Names{Origin: "one", Namespace: "machines"}, Names{Origin: "other", Namespace: "machines"}
	claim, key := one.newClaim(machine("web")), client.ObjectKeyFromObject(machine("web"))
	if !one.owns(key, claim) || claim.Labels[LabelOrigin] != "one" {
		t.Errorf("IPClaim %s with the labels %v is not that of %s", claim.Name, claim.Labels, key)
	}
	claim.Labels[LabelOrigin] = "other"
	if !one.owns(key, claim) || other.owns(key, claim) {
		t.Errorf("by its label, IPClaim %s has changed hands", claim.Name)
	}
	claim.Spec.OwnerRef.Name = "other"
	if one.owns(key, claim) {
		t.Errorf("IPClaim %s, whose consumer is another, is that of %s", claim.Name, key)
	}
}

func TestConsumer_IgnoresIPClaimsOfOtherOrigin(t *testing.T) {
	claim := inPlace.newClaim(machine("web"))
	if key, ok := inPlace.consumer(claim); !ok || key.Name != "web" || key.Namespace != "default" {
		t.Errorf("the consumer of %s is %s, %t; want default/web", claim.Name, key, ok)
	}
	for what, change := range map[string]func(*ipamv1alpha1.IPClaim){
		"no consumer":            func(claim *ipamv1alpha1.IPClaim) { claim.Spec.OwnerRef = nil },
		"another kind":           func(claim *ipamv1alpha1.IPClaim) { claim.Spec.OwnerRef.Kind = "Machine" },
		"another group":          func(claim *ipamv1alpha1.IPClaim) { claim.Spec.OwnerRef.APIGroup = "example.com" },
		"another namespace":      func(claim *ipamv1alpha1.IPClaim) { claim.Spec.OwnerRef.Namespace = "kube-system" },
		"a name that is not its": func(claim *ipamv1alpha1.IPClaim) { claim.Name = "web" },
	} {
		other := inPlace.newClaim(machine("web"))
		change(other)
		if key, ok := inPlace.consumer(other); ok {
			t.Errorf("an IPClaim with %s is taken for that of %s", what, key)
		}
	}
}

// Each reason of an IPClaim has a reason of Cluster API.
func TestTranslate_KnowsEveryReason(t *testing.T) {
	for reason, want := range map[ipamv1alpha1.Reason]string{
		ipamv1alpha1.ReasonPoolExhausted:        capiv1.IPAddressClaimReadyPoolExhaustedReason,
		ipamv1alpha1.ReasonNoOfferingPool:       capiv1.IPAddressClaimReadyPoolNotReadyReason,
		ipamv1alpha1.ReasonPoolNotFound:         capiv1.IPAddressClaimReadyPoolNotReadyReason,
		ipamv1alpha1.ReasonQuotaExceeded:        capiv1.IPAddressClaimReadyAllocationFailedReason,
		ipamv1alpha1.ReasonAllocationRetained:   capiv1.IPAddressClaimReadyAllocationFailedReason,
		ipamv1alpha1.ReasonPrefixLengthRejected: capiv1.IPAddressClaimReadyAllocationFailedReason,
	} {
		if got := translate(reason); got != want {
			t.Errorf("translate(%s) = %s; want %s", reason, got, want)
		}
	}
}
