package workspaces

import (
	"context"
	"testing"

	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// answers is a workspace that answers the lists of some kinds with an error.
type answers struct {
	client.Reader
	claims, classes error
}

func (a answers) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	switch list.(type) {
	case *ipamv1alpha1.IPClaimList:
		return a.claims
	case *ipamv1alpha1.IPClassList:
		return a.classes
	}
	return nil
}

// Each kind that is bound is waited for, and no other kind. Only claims must be readable.
func TestServed(t *testing.T) {
	unknown := &meta.NoKindMatchError{}
	forbidden := apierrors.NewForbidden(ipamv1alpha1.GroupVersion.WithResource("any").GroupResource(), "", nil)
	all := []string{"ipclaims", "ippools", "ipallocations", "ipclasses"}
	for name, test := range map[string]struct {
		bound  []string
		says   answers
		served bool
	}{
		"all":                   {all, answers{}, true},
		"no claims yet":         {all, answers{claims: unknown}, false},
		"no classes yet":        {all, answers{classes: unknown}, false},
		"no classes ever":       {all[:3], answers{classes: unknown}, true},
		"claims not to be read": {all, answers{claims: forbidden}, false},
		"others not to be read": {all, answers{classes: forbidden}, true},
	} {
		binding := &apisv1alpha2.APIBinding{}
		for _, resource := range test.bound {
			binding.Status.BoundResources = append(binding.Status.BoundResources, apisv1alpha2.BoundAPIResource{Resource: resource})
		}
		if err := served(t.Context(), test.says, binding); (err == nil) != test.served {
			t.Errorf("%s: served = %v, want served: %v", name, err, test.served)
		}
	}
}
