package live

import (
	"encoding/json"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/decode"
)

// odd is a claim with a value that Go does not read.
const odd = `{"apiVersion":"ipam.miloapis.com/v1alpha1","kind":"IPClaim","metadata":{"namespace":"default","name":"c","uid":"uid-of-c"},
"spec":{"prefixLength":99999999999},"status":{"allocatedCIDR":"10.0.0.0/24"}}`

// TestHolder_Unreadable: a claim that cannot be read is not gone, whoever looks for it.
func TestHolder_Unreadable(t *testing.T) {
	for _, uid := range []string{"uid-of-c", "uid-of-its-successor"} {
		endpoint := newSite(t)
		endpoint.bind("9", "w")
		endpoint.serve(claimPath, json.RawMessage(odd))
		_, reader := newWorld(t, endpoint)
		h := theClaim
		h.Claim = ledger.ClaimID(uid)
		if answer, err := reader.Holder(t.Context(), h); err == nil || answer.Verdict != Unknown {
			t.Errorf("the verdict on the claim %s is %v, %v; want Unknown and an error", uid, answer.Verdict, err)
		}
	}
}

// TestEach_OneUnreadable: an object that cannot be read is told with the others, marked, with all that is known of it.
func TestEach_OneUnreadable(t *testing.T) {
	platform, reader := newWorld(t)
	list := map[string]any{
		"apiVersion": "ipam.miloapis.com/v1alpha1", "kind": "IPClaimList", "metadata": map[string]any{},
		"items": []any{claimList("", "a").Items[0], json.RawMessage(odd), claimList("", "b").Items[0]},
	}
	platform.serve(claimsPath, list)
	var names []string
	err := reader.Each(t.Context(), &ipamv1alpha1.IPClaimList{}, func(_ ledger.ClusterName, object client.Object) {
		names = append(names, object.GetName())
		claim := object.(*ipamv1alpha1.IPClaim)
		if marked := decode.Unreadable(claim) != nil; marked != (claim.Name == "c") || claim.Status.AllocatedCIDR != "10.0.0.0/24" {
			t.Errorf("claim %s is unreadable: %t, and shows %q", claim.Name, marked, claim.Status.AllocatedCIDR)
		}
	})
	if err != nil || len(names) != 3 {
		t.Errorf("Each = %v and told %v, want a, c and b", err, names)
	}
}
