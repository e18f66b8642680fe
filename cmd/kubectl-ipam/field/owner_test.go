package field

import (
	"testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// An owner is read as it is written, and its UID is kept, whichever is given first.
func TestOwner_IsReadAsWritten(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]ipamv1alpha1.OwnerRef{
		"Service/default/web":             {Kind: "Service", Namespace: "default", Name: "web", UID: "u"},
		"Node/n-1":                        {Kind: "Node", Name: "n-1", UID: "u"},
		"Machine.example.com/default/m-1": {APIGroup: "example.com", Kind: "Machine", Namespace: "default", Name: "m-1", UID: "u"},
	} {
		for first, second := range map[string]string{"owner": "owner-uid", "owner-uid": "owner"} {
			claim := &ipamv1alpha1.IPClaim{}
			for _, name := range []string{first, second} {
				set(t, claim, name, map[string]string{"owner": text, "owner-uid": "u"}[name])
			}
			if got := claim.Spec.OwnerRef; got == nil || *got != want {
				t.Errorf("%q after %s is %+v; want %+v", text, first, got, want)
			}
			if got := Owner(&claim.Spec.OwnerRef).String(); got != text {
				t.Errorf("the owner is written as %q; want %q", got, text)
			}
		}
	}
	for _, text := range []string{"web", "Service/", "/web", "Service/a/b/c", "Service//web", ""} {
		var got *ipamv1alpha1.OwnerRef
		if err := Owner(&got).Set(text); err == nil || got != nil {
			t.Errorf("%q is read as %+v; want an error", text, got)
		}
	}
}

// set sets a field of a claim.
func set(t *testing.T, claim *ipamv1alpha1.IPClaim, name, text string) {
	t.Helper()
	for _, f := range OfClaim(claim) {
		if f.Name != name {
			continue
		}
		if err := f.Value.Set(text); err != nil {
			t.Errorf("%s: %q is %v", name, text, err)
		}
	}
}
