package fleet

import (
	"context"
	"net/http/httptest"
	"net/netip"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/internal/absent"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// newTestServer serves three workspaces of four claims each on two shards, and is reached at a path.
func newTestServer(t *testing.T, path string) (*Server, client.WithWatch) {
	t.Helper()
	crowd := NewCrowd(3, 12, 2)
	for i := range crowd.Claims() {
		crowd.Holds(i, netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}))
	}
	s := New("root:ipam", crowd)
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	c, err := client.NewWithWatch(&rest.Config{Host: web.URL + path}, client.Options{Scheme: testbed.Scheme(t), Mapper: mapper()})
	if err != nil {
		t.Fatalf("client.NewWithWatch: %v", err)
	}
	return s, c
}

// mapper knows the kinds that the stand-in serves; it has no discovery.
func mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	m.Add(ipamv1alpha1.GroupVersion.WithKind("IPClaim"), meta.RESTScopeNamespace)
	m.Add(ipamv1alpha1.GroupVersion.WithKind("IPAllocation"), meta.RESTScopeNamespace)
	return m
}

// pages lists all claims, two at a time.
func pages(t *testing.T, c client.Client) (names map[string]int) {
	t.Helper()
	names = map[string]int{}
	for next := ""; ; {
		list := &ipamv1alpha1.IPClaimList{}
		if err := c.List(t.Context(), list, client.Limit(2), client.Continue(next)); err != nil {
			t.Fatalf("List from %q: %v", next, err)
		}
		for i := range list.Items {
			names[string(list.Items[i].UID)]++
		}
		if next = list.Continue; next == "" {
			return names
		}
	}
}

// The pages of a shard show each of its claims once, also those that were added, and none that is
// gone.
func TestList_Pages(t *testing.T) {
	t.Parallel()
	s, c := newTestServer(t, "/services/apiexport/shard-0/clusters/*")
	if got := pages(t, c); len(got) != 8 {
		t.Errorf("the shard of two workspaces lists %d claims, want 8", len(got))
	}
	q := request{table: s.tables[ipamGroup+"/ipclaims"], scope: scope{cluster: s.crowd.Cluster(0), namespace: "default"}, version: "v1alpha1"}
	for _, name := range []string{"a", "b", "c"} {
		if _, err := s.create(q, []byte(`{"metadata":{"name":"`+name+`"}}`)); err != nil {
			t.Fatalf("create %s: %v", name, err)
		}
	}
	q.name = claimName(1)
	if _, err := s.remove(q, nil); err != nil {
		t.Fatalf("remove: %v", err)
	}
	got := pages(t, c)
	if len(got) != 10 {
		t.Errorf("after three came and one went the shard lists %d claims, want 10", len(got))
	}
	for uid, times := range got {
		if times != 1 {
			t.Errorf("claim %s is listed %d times", uid, times)
		}
	}
}

// What goes on from a revision that is forgotten is told so.
func TestCompact(t *testing.T) {
	t.Parallel()
	s, c := newTestServer(t, "/services/apiexport/shard-0/clusters/*")
	list := &ipamv1alpha1.IPClaimList{}
	if err := c.List(t.Context(), list, client.Limit(2)); err != nil {
		t.Fatalf("List: %v", err)
	}
	s.Compact()
	if err := c.List(t.Context(), list, client.Limit(2), client.Continue(list.Continue)); !apierrors.IsResourceExpired(err) {
		t.Errorf("List of the next page = %v, want 410", err)
	}
	watch, err := c.Watch(t.Context(), list, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}})
	if err != nil {
		t.Fatalf("Watch: %v", err)
	}
	defer watch.Stop()
	if e := <-watch.ResultChan(); !apierrors.IsResourceExpired(apierrors.FromObject(e.Object)) {
		t.Errorf("the watch from a revision that is forgotten brings %v, want 410", e)
	}
}

// A patch of a version that is not the object's fails, and one that is of it is seen by a watch.
func TestWrite(t *testing.T) {
	t.Parallel()
	s, _ := newTestServer(t, "")
	_, c := newTestServer(t, "/services/apiexport/shard-1/clusters/"+s.crowd.Cluster(2))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	claim := gen.Claim(claimName(0))
	if err := c.Get(ctx, client.ObjectKeyFromObject(claim), claim); err != nil {
		t.Fatalf("Get: %v", err)
	}
	watch, err := c.Watch(ctx, &ipamv1alpha1.IPClaimList{})
	if err != nil {
		t.Fatalf("Watch: %v", err)
	}
	defer watch.Stop()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"resourceVersion":"`+claim.ResourceVersion+`","labels":{"a":"b"}}}`))
	if err := c.Patch(ctx, claim, patch); err != nil {
		t.Fatalf("Patch: %v", err)
	}
	if e := <-watch.ResultChan(); e.Object.(*ipamv1alpha1.IPClaim).Labels["a"] != "b" {
		t.Errorf("the watch brings %v, want the patched claim", e)
	}
	if err := c.Patch(ctx, claim, patch); !apierrors.IsConflict(err) {
		t.Errorf("the same patch again = %v, want a conflict", err)
	}
	if err := c.Create(ctx, gen.Claim(claimName(0))); !apierrors.IsAlreadyExists(err) {
		t.Errorf("Create of a claim that is there = %v, want that it exists", err)
	}
	if err := c.Get(ctx, client.ObjectKey{Namespace: "default", Name: "none"}, claim); !absent.Object(err, "ipclaims", "none") {
		t.Errorf("Get of no claim = %v, want a 404 that names it", err)
	}
}
