package capi

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// In a workspace, every IPAddressClaim of every management cluster has a name of an IPClaim, and no
// two the same.
func TestNames_InAWorkspace(t *testing.T) {
	long := strings.Repeat("a", validation.DNS1123SubdomainMaxLength)
	dotted := strings.Repeat("a.", validation.DNS1123SubdomainMaxLength/2) + "a"
	seen := map[client.ObjectKey]string{}
	for _, origin := range []types.UID{"one", "other"} {
		for _, key := range []client.ObjectKey{
			{Namespace: "a", Name: "web"}, {Namespace: "b", Name: "web"}, {Namespace: "a", Name: "b-web"}, {Namespace: "a-b", Name: "web"},
			{Namespace: "a", Name: long}, {Namespace: "a", Name: long[1:] + "b"}, {Namespace: "a", Name: dotted}, {Namespace: "a", Name: dotted[2:]},
		} {
			what := string(origin) + " " + key.String()
			got := Names{Origin: origin, Namespace: "machines"}.claim(key)
			if errs := validation.IsDNS1123Subdomain(got.Name); len(errs) > 0 || got.Namespace != "machines" {
				t.Errorf("the IPClaim of %s is %s: %v", what, got, errs)
			}
			if before, taken := seen[got]; taken {
				t.Errorf("the IPClaims of %s and %s are %s", what, before, got)
			}
			seen[got] = what
		}
	}
}

// An IPClaim of one management cluster is of no IPAddressClaim of another, whatever its label says.
func TestNames_OfAnotherManagementCluster(t *testing.T) {
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
