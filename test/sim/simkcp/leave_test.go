package simkcp

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kcp-ipam/ipam/test/must"
)

// aPool returns a pool with finalizers.
func aPool(name string, finalizers ...any) map[string]any {
	return map[string]any{"metadata": map[string]any{"name": name, "finalizers": finalizers}, "spec": map[string]any{"cidr": "10.0.0.0/8"}}
}

// While a binding is being deleted, nothing is created, policies are asked, and objects that finalizers hold may
// change.
func TestUnbind_RefusesCreatesWhileItWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		user := User{World: w, Cluster: tenant, Name: "t"}
		must.Get(user.Create(t.Context(), "ippools", aPool("held", "example.com/hold")))(t)
		must.Get(user.Create(t.Context(), "ippools", aPool("free")))(t)
		must.Do(t, user.Delete(t.Context(), "apibindings", "", "ipam"))
		pause(t.Context(), time.Second)
		if _, err := user.Get("ippools", "", "free"); !apierrors.IsNotFound(err) {
			t.Errorf("Get of a pool that nothing holds = %v, want NotFound", err)
		}
		if _, err := user.Create(t.Context(), "ippools", aPool("late")); !apierrors.IsForbidden(err) {
			t.Errorf("Create = %v, want Forbidden", err)
		}
		if err := user.Patch("ippools", "", "held", `{"metadata":{"labels":{"ipam.miloapis.com/slice-of":"u"}}}`); !apierrors.IsInvalid(err) {
			t.Errorf("a forged label: %v, want Invalid", err)
		}
		must.Do(t, user.Patch("ippools", "", "held", `{"metadata":{"finalizers":null}}`))
		pause(t.Context(), 2*recheck)
		if _, err := user.Get("apibindings", "", "ipam"); !apierrors.IsNotFound(err) {
			t.Errorf("Get of the binding = %v, want NotFound", err)
		}
	})
}

// A binding that a user makes beside another one serves nothing until that one is gone.
func TestBind_LetsASecondBindingTakeOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		user := User{World: w, Cluster: tenant, Name: "t"}
		second := map[string]any{"metadata": map[string]any{"name": "second"}, "spec": map[string]any{}}
		must.Get(user.Create(t.Context(), "apibindings", second))(t)
		pause(t.Context(), time.Second)
		if isBound(must.Get(user.Get("apibindings", "", "second"))(t)) {
			t.Error("the second binding serves beside the first")
		}
		w.Unbind(tenant, 0)
		pause(t.Context(), time.Second)
		if !isBound(must.Get(user.Get("apibindings", "", "second"))(t)) {
			t.Error("the second binding does not serve when the first is gone")
		}
		must.Get(user.Create(t.Context(), "ippools", aPool("p")))(t)
	})
}

// The DELETE of a workspace deletes its claims. A finalizer of a claim holds the workspace.
func TestDeleteWorkspace_WaitsForFinalizers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		user := User{World: w, Cluster: tenant, Name: "t"}
		claim := map[string]any{"metadata": map[string]any{"name": "c", "namespace": "default"}, "spec": map[string]any{}}
		must.Get(user.Create(t.Context(), "ipclaims", claim))(t)
		must.Get(user.Create(t.Context(), "ippools", aPool("held", "example.com/hold")))(t)
		gone := make(chan bool)
		go func() { gone <- w.DeleteWorkspace(tenant, 0) }()
		pause(t.Context(), time.Minute)
		synctest.Wait()
		select {
		case <-gone:
			t.Fatal("the workspace is gone, and a finalizer holds its pool")
		default:
		}
		if n := len(w.All("ipclaims")); n != 0 {
			t.Errorf("%d claims are stored, want 0", n)
		}
		must.Do(t, user.Patch("ippools", "", "held", `{"metadata":{"finalizers":null}}`))
		if !<-gone {
			t.Error("the workspace stays")
		}
		if code, _ := w.as("t").send(t, "GET", "/clusters/root:team-a/apis/ipam.miloapis.com/v1alpha1/ippools", "", ""); code != http.StatusNotFound {
			t.Errorf("a list in a workspace that is gone answers %d, want 404", code)
		}
	})
}

// A namespace is emptied five seconds after its DELETE. Until then its claims are served, and none is created.
func TestDeleteNamespace_KeepsClaimsForFiveSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		user := User{World: w, Cluster: tenant, Name: "t"}
		claim := func(name string) map[string]any {
			return map[string]any{"metadata": map[string]any{"name": name, "namespace": "default"}, "spec": map[string]any{}}
		}
		must.Get(user.Create(t.Context(), "ipclaims", claim("a")))(t)
		must.Do(t, user.Delete(t.Context(), "namespaces", "", "default"))
		pause(t.Context(), grace-time.Second)
		must.Get(user.Get("ipclaims", "default", "a"))(t)
		if _, err := user.Create(t.Context(), "ipclaims", claim("b")); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "terminated") {
			t.Errorf("Create = %v, want Forbidden, as the namespace is being terminated", err)
		}
		pause(t.Context(), 2*time.Second)
		for plural, at := range map[string][2]string{"ipclaims": {"default", "a"}, "namespaces": {"", "default"}} {
			if _, err := user.Get(plural, at[0], at[1]); !apierrors.IsNotFound(err) {
				t.Errorf("Get of %s %s = %v, want NotFound", plural, at[1], err)
			}
		}
	})
}
