package ui

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/stage"
)

// servedTo serves a pool and a class to a user who may read only the given kinds.
func servedTo(t *testing.T, readable ...string) *httptest.Server {
	t.Helper()
	lists := map[string]any{
		"ippools":       &ipamv1alpha1.IPPoolList{Items: []ipamv1alpha1.IPPool{*gen.Pool("lab", gen.CIDR("10.8.0.0/16"))}},
		"ipclasses":     &ipamv1alpha1.IPClassList{Items: []ipamv1alpha1.IPClass{*gen.Class("internal")}},
		"ipclaims":      &ipamv1alpha1.IPClaimList{},
		"ipallocations": &ipamv1alpha1.IPAllocationList{},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		resource := path.Base(r.URL.Path)
		answer, code := lists[resource], http.StatusOK
		if !slices.Contains(readable, resource) {
			denied := apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", fmt.Errorf("no role"))
			answer, code = denied.ErrStatus, http.StatusForbidden
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Errorf("write the answer about %s: %v", resource, err)
		}
	}))
	t.Cleanup(server.Close)
	return server
}

// An admin of pools or classes on the platform sees these, and no claims. A user who may read nothing gets an error.
func TestRead_LeavesOutWhatMayNotBeRead(t *testing.T) {
	for name, test := range map[string]struct {
		readable       []string
		pools, classes int
	}{
		"ipam-class-admin":       {[]string{"ipclasses", "ippools"}, 1, 1},
		"ipam-shared-pool-admin": {[]string{"ipclasses", "ippools", "ipallocations"}, 1, 1},
		"ipam-class-viewer":      {[]string{"ipclasses"}, 0, 1},
		"nobody":                 {},
	} {
		s := stage.New(t)
		*s.Flags.APIServer = servedTo(t, test.readable...).URL
		found, err := pageSource{s.Session}.Read(t.Context())
		switch {
		case len(test.readable) == 0:
			if !apierrors.IsForbidden(err) {
				t.Errorf("%s: Read returns %v; want that it is forbidden", name, err)
			}
		case err != nil:
			t.Errorf("%s: Read returns %v; want what may be read", name, err)
		case len(found.Pools) != test.pools || len(found.Classes) != test.classes:
			t.Errorf("%s: Read finds %d pools and %d classes; want %d and %d", name, len(found.Pools), len(found.Classes), test.pools, test.classes)
		}
	}
}
