package claim

import (
	"testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
)

func TestParseOwner(t *testing.T) {
	for text, want := range map[string]ipamv1alpha1.OwnerRef{
		"Service/default/web":             {Kind: "Service", Namespace: "default", Name: "web"},
		"Node/n-1":                        {Kind: "Node", Name: "n-1"},
		"Machine.example.com/default/m-1": {APIGroup: "example.com", Kind: "Machine", Namespace: "default", Name: "m-1"},
	} {
		if got, err := parseOwner(text, ""); err != nil || *got != want {
			t.Errorf("parseOwner(%q) = %+v, %v; want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"web", "Service/", "/web", "Service/a/b/c", "Service//web"} {
		if got, err := parseOwner(text, ""); exit.CodeOf(err) != exit.Usage {
			t.Errorf("parseOwner(%q) = %+v, %v; want wrong usage", text, got, err)
		}
	}
}
