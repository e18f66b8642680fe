package tenants

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

const resources = "/apis/ipam.miloapis.com/v1alpha1/"

// early waits for a workspace that is bound at endpoint one, whose claims cannot be listed.
func (s *scene) early(workspace multicluster.ClusterName) (shown cluster.Cluster) {
	s.Helper()
	s.breaks("/one/clusters/*" + resources + "ipclaims")
	s.binds("one", string(workspace))
	s.until(func() (err error) {
		shown, err = s.Bound(s.Context(), workspace)
		return err
	})
	return shown
}

// until calls ask until it returns no error.
func (s *scene) until(ask func() error) {
	s.Helper()
	var last error
	if err := wait.PollUntilContextTimeout(s.Context(), 5*time.Millisecond, soon, true, func(context.Context) (bool, error) {
		last = ask()
		return last == nil, nil
	}); err != nil {
		s.Fatal(last)
	}
}

// A workspace can be read before its claims are listed: its pools from the cache, its claims and records from
// the server.
func TestBound_ReadsBeforeClaimsAreListed(t *testing.T) {
	s := newScene(t)
	pool := gen.Pool("p", gen.CIDR("10.0.0.0/24"))
	pool.Annotations = map[string]string{"kcp.io/cluster": "a"}
	s.put("/one/clusters/*"+resources+"ippools", "p", pool)
	cl := s.early("a")
	must.Fail(s.Get(t.Context(), "a"))(t, multicluster.ErrClusterNotFound)
	pools := &ipamv1alpha1.IPPoolList{}
	if err := cl.GetCache().List(t.Context(), pools); err != nil || len(pools.Items) != 1 || pools.Items[0].Name != "p" {
		t.Errorf("the pools are %v, %v; want p", pools.Items, err)
	}
	must.Do(t, cl.GetCache().Get(t.Context(), client.ObjectKey{Name: "p"}, &ipamv1alpha1.IPPool{}))
	if err := cl.GetCache().List(t.Context(), &ipamv1alpha1.IPClaimList{}); err == nil {
		t.Error("the claims can be listed, want an error: they are not cached")
	}

	key := client.ObjectKey{Namespace: "default", Name: "c"}
	if err := cl.GetCache().Get(t.Context(), key, &ipamv1alpha1.IPClaim{}); !apierrors.IsNotFound(err) {
		t.Errorf("read a claim that is not there: %v, want NotFound", err)
	}
	s.put("/one/clusters/a"+resources+"namespaces/default/ipclaims", "c", gen.Claim("c"))
	claim := &ipamv1alpha1.IPClaim{}
	if err := cl.GetCache().Get(t.Context(), key, claim); err != nil || claim.Name != "c" {
		t.Errorf("read a claim: %s, %v; want c", claim.Name, err)
	}

	s.repairs("/one/clusters/*" + resources + "ipclaims")
	s.sees("+a")
	if now, err := s.Bound(t.Context(), "a"); err != nil || now == cl {
		t.Errorf("Bound = %v, want the engaged workspace", err)
	}
}

// A 404 that does not name the object is no "not found".
func TestBound_IgnoresA404ThatDoesNotNameTheObject(t *testing.T) {
	s := newScene(t)
	cl := s.early("a")
	s.answers("/one/clusters/a"+resources+"namespaces/default/ipclaims/c", http.StatusNotFound)
	err := cl.GetCache().Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "c"}, &ipamv1alpha1.IPClaim{})
	if err == nil || apierrors.IsNotFound(err) {
		t.Errorf("read a claim where the kind is not served: %v, want an error that is no NotFound", err)
	}
}

// Bound does not find a workspace that is not bound, or whose endpoint is gone.
func TestBound_FindsNoUnboundWorkspace(t *testing.T) {
	s := newScene(t)
	s.early("a")
	must.Fail(s.Bound(t.Context(), "b"))(t, multicluster.ErrClusterNotFound)
	s.listed()
	s.until(func() error {
		if _, err := s.Bound(t.Context(), "a"); !errors.Is(err, multicluster.ErrClusterNotFound) {
			return fmt.Errorf("without its endpoint Bound(a) = %w, want that it is not found", err)
		}
		return nil
	})
}
