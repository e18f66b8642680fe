package live

import (
	"context"
	"net/http"
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/gen"
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
	list.Items[0].Labels = map[string]string{"only": "here"} // which those at this place of other pages lack
	return list
}

// All pages of a list are told, each object as client-go reads it, but for managedFields.
func TestEach_AsClientGo(t *testing.T) {
	platform, reader := newWorld(t)
	platform.serve(claimsPath, claimList("next", "a", "b"))
	platform.serve(claimsPath+"?next", claimList("", "c"))
	var got []ipamv1alpha1.IPClaim
	err := reader.Each(t.Context(), &ipamv1alpha1.IPClaimList{}, func(cluster ledger.ClusterName, object client.Object) {
		if cluster != "platform" {
			t.Errorf("the claim is told as one of %s", cluster)
		}
		got = append(got, *object.(*ipamv1alpha1.IPClaim))
	})
	if err != nil {
		t.Fatal(err)
	}
	c, err := reader.at(platform.URL, "")
	if err != nil {
		t.Fatalf("at: %v", err)
	}
	var want []ipamv1alpha1.IPClaim
	for _, next := range []string{"", "next"} {
		list := &ipamv1alpha1.IPClaimList{}
		if err := c.List(t.Context(), list, client.Continue(next)); err != nil {
			t.Fatalf("List: %v", err)
		}
		want = append(want, list.Items...)
	}
	for i := range want {
		want[i].ManagedFields = nil
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("Each tells\n%+v\nand client-go reads\n%+v", got, want)
	}
}

// What is no list, or not to its end, is an error that names the server, and no list of nothing.
func TestEach_Refused(t *testing.T) {
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
			err := reader.Each(t.Context(), &ipamv1alpha1.IPClaimList{}, func(ledger.ClusterName, client.Object) {})
			if err == nil || !strings.Contains(err.Error(), answer.want) || !strings.Contains(err.Error(), platform.URL) {
				t.Errorf("Each = %v, want an error that says %q and names the server", err, answer.want)
			}
		})
	}
	t.Run("the context has ended", func(t *testing.T) {
		_, reader := newWorld(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := reader.Each(ctx, &ipamv1alpha1.IPClaimList{}, func(ledger.ClusterName, client.Object) {}); err == nil {
			t.Error("Each of a context that has ended returns no error")
		}
	})
}

// TestMapper_StoredVersions: of kinds with several versions, only the stored one can be read. Reading another has kcp
// convert each object, and one that it cannot convert fails the list of all workspaces.
func TestMapper_StoredVersions(t *testing.T) {
	for _, kind := range []schema.GroupKind{{Group: "apis.kcp.io", Kind: "APIBinding"}, {Group: "apis.kcp.io", Kind: "APIExport"}} {
		if mapping, err := Mapper().RESTMapping(kind, "v1alpha1"); err == nil {
			t.Errorf("%s can be read as %s, want v1alpha2 alone", kind.Kind, mapping.GroupVersionKind)
		}
	}
}
