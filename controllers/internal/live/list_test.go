package live

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/decode"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

const claimsPath = "/apis/ipam.miloapis.com/v1alpha1/ipclaims"

// claimList is a page of claims as a server sends it.
func claimList(next string, names ...string) *ipamv1alpha1.IPClaimList {
	list := &ipamv1alpha1.IPClaimList{TypeMeta: metav1.TypeMeta{APIVersion: ipamv1alpha1.GroupVersion.String(), Kind: "IPClaimList"}}
	list.Continue = next
	for _, name := range names {
		claim := gen.Claim(name, gen.Length(24))
		claim.TypeMeta = metav1.TypeMeta{APIVersion: ipamv1alpha1.GroupVersion.String(), Kind: "IPClaim"}
		claim.CreationTimestamp = metav1.Unix(1_700_000_000, 0)
		claim.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
		claim.Status.AllocatedCIDR = "10.0.0.0/24"
		list.Items = append(list.Items, *claim)
	}
	list.Items[0].Labels = map[string]string{"only": "here"} // which the other objects of the page lack
	return list
}

// Each visits the objects of all pages, each as client-go reads it, except managedFields.
func TestEach_AgreesWithClientGo(t *testing.T) {
	platform, reader := newWorld(t)
	platform.serve(claimsPath, claimList("next", "a", "b"))
	platform.serve(claimsPath+"?next", claimList("", "c"))
	var got []ipamv1alpha1.IPClaim
	must.Do(t, reader.Each(t.Context(), &ipamv1alpha1.IPClaimList{}, func(cluster ledger.ClusterName, object client.Object) {
		if cluster != "platform" {
			t.Errorf("the claim is told as one of %s", cluster)
		}
		got = append(got, *object.(*ipamv1alpha1.IPClaim))
	}))
	c := must.Get(reader.at(platform.URL, ""))(t)
	var want []ipamv1alpha1.IPClaim
	for _, next := range []string{"", "next"} {
		list := &ipamv1alpha1.IPClaimList{}
		must.Do(t, c.List(t.Context(), list, client.Continue(next)))
		want = append(want, list.Items...)
	}
	for i := range want {
		want[i].ManagedFields = nil
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("Each tells\n%+v\nand client-go reads\n%+v", got, want)
	}
}

// If an answer is no list, or ends early, Each fails, and names the server. The list does not count as empty.
func TestEach_FailsWithoutACompleteList(t *testing.T) {
	expired := metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: http.StatusGone,
		Reason: metav1.StatusReasonExpired, Message: "the continue token is too old",
	}
	for name, answer := range map[string]struct {
		page any
		want string
	}{
		"a token that is too old":  {&expired, "the continue token is too old"},
		"nothing that has a kind":  {map[string]any{}, "want IPClaimList"},
		"a list of something else": {map[string]any{"apiVersion": "v1", "kind": "List", "items": []any{}}, `"List"`},
		"text":                     {"<html>", "json"},
		"no such page":             {nil, "could not find"},
	} {
		t.Run(name, func(t *testing.T) {
			platform, reader := newWorld(t)
			platform.serve(claimsPath, claimList("next", "a"))
			platform.serve(claimsPath+"?next", answer.page)
			err := reader.Each(t.Context(), &ipamv1alpha1.IPClaimList{}, ignore)
			if err == nil || !strings.Contains(err.Error(), answer.want) || !strings.Contains(err.Error(), platform.URL) {
				t.Errorf("Each = %v, want an error that says %q and names the server", err, answer.want)
			}
		})
	}
	t.Run("the context has ended", func(t *testing.T) {
		_, reader := newWorld(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := reader.Each(ctx, &ipamv1alpha1.IPClaimList{}, ignore); err == nil {
			t.Error("Each of a context that has ended returns no error")
		}
	})
}

// If a kind has several versions, only the stored version can be read. For another version kcp converts each object,
// and an object that it cannot convert fails the list of all workspaces.
func TestMapper_HasOnlyStoredVersions(t *testing.T) {
	for _, kind := range []schema.GroupKind{{Group: "apis.kcp.io", Kind: "APIBinding"}, {Group: "apis.kcp.io", Kind: "APIExport"}} {
		if mapping, err := Mapper().RESTMapping(kind, "v1alpha1"); err == nil {
			t.Errorf("%s can be read as %s, want v1alpha2 alone", kind.Kind, mapping.GroupVersionKind)
		}
	}
}

// odd is a claim with a value that Go cannot read.
const odd = `{"apiVersion":"ipam.miloapis.com/v1alpha1","kind":"IPClaim","metadata":{"namespace":"default","name":"c","uid":"uid-of-c"},
"spec":{"prefixLength":99999999999},"status":{"allocatedCIDR":"10.0.0.0/24"}}`

// While a claim cannot be read whole, neither this claim nor a former claim of its name is found to be gone.
func TestHolder_KeepsAnUnreadableClaim(t *testing.T) {
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

// An object that cannot be read whole is visited like the others, marked, with its readable fields.
func TestEach_MarksAnUnreadableObject(t *testing.T) {
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
