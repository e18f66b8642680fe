package simkcp

import (
	"bufio"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kcp-ipam/ipam/test/must"
)

const tenant = "tenant0000000000"

// newWorld returns a world with a tenant's workspace.
func newWorld(t *testing.T) *World {
	t.Helper()
	w := New()
	t.Cleanup(w.Close)
	w.Workspace(Platform, PlatformPath, "default")
	w.Workspace(tenant, "root:team-a", "default")
	return w
}

// as returns a connection of a user without faults.
func (w *World) as(name string) *Transport {
	t := NewTransport(w, func(string, string) Fate { return Fate{} }, func(string) time.Duration { return 0 })
	t.As = name
	return t
}

// send sends a request, and returns the code and the object of the answer.
func (t *Transport) send(tt *testing.T, method, path, kind, body string) (int, *unstructured.Unstructured) {
	tt.Helper()
	r := must.Get(http.NewRequestWithContext(tt.Context(), method, "http://kcp"+path, strings.NewReader(body)))(tt)
	r.Header.Set("Content-Type", kind)
	answered := must.Get(t.RoundTrip(r))(tt)
	defer func() { _ = answered.Body.Close() }()
	o := &unstructured.Unstructured{}
	if err := json.NewDecoder(answered.Body).Decode(&o.Object); err != nil {
		return answered.StatusCode, nil // a path that is not served
	}
	return answered.StatusCode, o
}

// The requests are sent in order. The world answers as a kcp with the platform's manifests and without webhooks.
func TestWorld_Answers(t *testing.T) {
	t.Parallel()
	const (
		at     = "/clusters/root:team-a/apis/ipam.miloapis.com/v1alpha1/namespaces/default/ipclaims"
		status = "/clusters/root:team-a/apis/ipam.miloapis.com/v1controller1/namespaces/default/ipclaims/a/status"
		pools  = "/clusters/root:team-a/apis/ipam.miloapis.com/v1alpha1/ippools"
		merge  = "application/merge-patch+json"
		apply  = "application/apply-patch+yaml"
		claim  = `{"apiVersion":"ipam.miloapis.com/v1alpha1","kind":"IPClaim","metadata":{"name":"a"},"spec":{"className":"c","pruned":1}}`
	)
	w := newWorld(t)
	for _, tt := range []struct {
		name, by, method, path, kind, body string
		code                               int
		says                               string // part of the message, or of the object
	}{
		{"a dry run stores nothing", "t", "POST", at + "?dryRun=All", "", claim, 201, ""},
		{"create", "t", "POST", at, "", claim, 201, `"className":"c"`},
		{"create again", "t", "POST", at, "", claim, 409, "already exists"},
		{"an invalid name", "t", "POST", at, "", strings.Replace(claim, `"a"`, `"A_"`, 1), 422, "metadata.name"},
		{"another kind", "t", "POST", at, "", strings.Replace(claim, "IPClaim", "IPPool", 1), 422, "must be IPClaim"},
		{"another version", "t", "POST", at, "", strings.Replace(claim, "v1alpha1", "v1controller1", 1), 400, "does not match the expected API version"},
		{"another namespace", "t", "POST", at, "", strings.Replace(claim, `"name"`, `"namespace":"x","name"`, 1), 400, "does not match the namespace"},
		{"a version of a new object", "t", "POST", at, "", strings.Replace(claim, `"name"`, `"resourceVersion":"1","name"`, 1), 500, "should not be set"},
		{"another name than the URL", "t", "PUT", at + "/a", "", strings.Replace(claim, `"a"`, `"b"`, 1), 400, "does not match the name on the URL"},
		{"no such namespace", "t", "POST", strings.Replace(at, "default", "none", 1), "", claim, 404, `"none\" not found`},
		{"a forged status", "t", "POST", at, "", strings.Replace(claim, `"spec"`, `"status":{"phase":"Bound"},"spec"`, 1), 422, "remove status"},
		{"a rule of the schema", "t", "PATCH", at + "/a", merge, `{"spec":{"className":"other"}}`, 422, "immutable"},
		{"a forged status by a patch", "t", "PATCH", at + "/a", merge, `{"status":{"phase":"Bound"}}`, 422, "the status is written by the system"},
		{"an older version", "t", "PATCH", at + "/a", merge, `{"metadata":{"resourceVersion":"1"}}`, 409, "has been modified"},
		{"no version", "t", "PUT", at + "/a", "", claim, 422, "must be specified for an update"},
		{"a status by a user", "t", "PATCH", status, merge, `{"status":{"phase":"Bound"}}`, 422, "change the spec instead"},
		{"a status by the controller", "controller", "PATCH", status, merge, `{"status":{"phase":"Bound"}}`, 200, `"phase":"Bound"`},
		{"no status subresource in v1alpha1", "controller", "PATCH", at + "/a/status", merge, `{}`, 404, ""},
		{"apply", "t", "PATCH", pools + "/p?fieldManager=test", apply, `{"apiVersion":"ipam.miloapis.com/v1alpha1","kind":"IPPool","spec":{"cidr":"10.0.0.0/8"}}`, 201, `"visibility":"consumer"`},
		{"an allocation", "t", "POST", strings.Replace(at, "ipclaims", "ipallocations", 1), "", `{"kind":"IPAllocation","metadata":{"name":"x"},"spec":{"cidr":"10.0.0.0/24"}}`, 422, ""},
		{"no kind", "t", "POST", pools, "", `{"metadata":{"name":"x"},"spec":{"cidr":"10.0.0.0/24"}}`, 400, "Kind"},
		{"apply for nobody", "t", "PATCH", pools + "/p", apply, `{"apiVersion":"ipam.miloapis.com/v1alpha1","kind":"IPPool","spec":{}}`, 422, "fieldManager"},
		{"another UID", "t", "DELETE", at + "/a", "", `{"preconditions":{"uid":"other"}}`, 409, "Precondition failed"},
		{"delete", "t", "DELETE", at + "/a", "", "", 200, `"status":"Success"`},
		{"delete again", "t", "DELETE", at + "/a", "", "", 404, `"a\" not found`},
		{"a workspace without a binding", "t", "GET", strings.Replace(at, "root:team-a", "root:none", 1), "", "", 404, ""},
	} {
		code, o := w.as(tt.by).send(t, tt.method, tt.path, tt.kind, tt.body)
		said := ""
		if o != nil {
			said = string(text(o))
		}
		if code != tt.code || !strings.Contains(said, tt.says) || strings.Contains(said, "pruned") {
			t.Errorf("%s: got %d %s, want %d with %s", tt.name, code, said, tt.code, tt.says)
		}
	}
}

// A watch of all workspaces shows the objects that go with a binding. A finalizer holds the binding.
func TestUnbind_WaitsForFinalizers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		user := User{World: w, Cluster: tenant, Name: "t"}
		must.Get(user.Create(t.Context(), "ippools", map[string]any{
			"metadata": map[string]any{"name": "p", "finalizers": []string{"example.com/hold"}}, "spec": map[string]any{"cidr": "10.0.0.0/8"},
		}))(t)
		connection := w.as(userController)
		r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet,
			"http://kcp/services/apiexport/shard-0/clusters/*/apis/ipam.miloapis.com/v1alpha1/ippools?watch=true&resourceVersion=1000", nil))(t)
		events := bufio.NewScanner(must.Get(connection.RoundTrip(r))(t).Body)
		gone := make(chan bool)
		go func() { gone <- w.Unbind(tenant, time.Millisecond) }()
		for _, want := range []string{added, modified} {
			if !events.Scan() || !strings.Contains(events.Text(), want) {
				t.Fatalf("event %q, want %s", events.Text(), want)
			}
		}
		must.Do(t, user.Patch("ippools", "", "p", `{"metadata":{"finalizers":null}}`))
		if !<-gone {
			t.Errorf("the binding is there, and its pool is gone")
		}
		if !events.Scan() || !strings.Contains(events.Text(), deleted) {
			t.Errorf("event %q, want %s", events.Text(), deleted)
		}
		if _, err := user.Get("ippools", "", "p"); !apierrors.IsNotFound(err) {
			t.Errorf("Get in an unbound workspace = %v, want NotFound", err)
		}
		connection.Cut()
	})
}

// With StoreUnbound, a CREATE that was routed before its workspace unbound is stored past admission.
func TestWorld_StoresACreateThatWasRoutedBeforeTheUnbind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.Body = func(string) time.Duration { return time.Minute }
		w.StoreUnbound = true
		created := make(chan error)
		forged := map[string]any{"metadata": map[string]any{"name": "x", "namespace": "default"}, "spec": map[string]any{
			"cidr": "10.0.0.0/24", "ipFamily": "IPv4", "reclaimPolicy": "Delete", "poolRef": map[string]any{"name": "p"},
		}}
		go func() {
			_, err := User{World: w, Cluster: tenant, Name: "t"}.Create(t.Context(), "ipallocations", forged)
			created <- err
		}()
		synctest.Wait()
		w.Unbind(tenant, 0)
		if err := <-created; err != nil {
			t.Errorf("Create = %v, want a stored IPAllocation", err)
		}
		if n := len(w.All("ipallocations")); n != 1 {
			t.Errorf("%d IPAllocations are stored, want 1", n)
		}
	})
}
