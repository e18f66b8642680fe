package live

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A cache whose watch has stalled shows for ever what it showed last. The reader asks
// the server.
func TestHolder_WhileTheCacheHasStalled(t *testing.T) {
	endpoint := newSite(t)
	_, reader := newWorld(t, endpoint)
	endpoint.bind("9", "w")
	endpoint.holds("uid-of-c")
	claim := gen.Claim("c")
	claim.UID = "uid-of-c"
	stalled := stalledCache(t, reader, endpoint, *claim)

	key := client.ObjectKeyFromObject(claim)
	endpoint.lacks()
	if err := stalled.Get(t.Context(), key, &ipamv1alpha1.IPClaim{}); err != nil {
		t.Fatalf("the cache has not stalled: %v", err)
	}
	asks(t, reader, Gone)

	stalled = stalledCache(t, reader, endpoint)
	endpoint.holds("uid-of-c")
	if err := stalled.Get(t.Context(), key, &ipamv1alpha1.IPClaim{}); client.IgnoreNotFound(err) != nil || err == nil {
		t.Fatalf("the cache has not stalled: %v", err)
	}
	asks(t, reader, Alive)
}

// stalledCache is a cache of the workspace w that has listed these claims, and whose
// watch brings nothing.
func stalledCache(t *testing.T, reader *Reader, endpoint *site, claims ...ipamv1alpha1.IPClaim) cache.Cache {
	t.Helper()
	list := &ipamv1alpha1.IPClaimList{
		TypeMeta: metav1.TypeMeta{APIVersion: ipamv1alpha1.GroupVersion.String(), Kind: "IPClaimList"},
		ListMeta: metav1.ListMeta{ResourceVersion: "9"}, Items: claims,
	}
	endpoint.serve("/clusters/w/apis/ipam.miloapis.com/v1alpha1/ipclaims", list)
	c, err := cache.New(&rest.Config{Host: endpoint.URL + "/clusters/w"}, cache.Options{Scheme: reader.opts.Scheme, Mapper: reader.mapper})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	if _, err := c.GetInformer(t.Context(), &ipamv1alpha1.IPClaim{}); err != nil {
		t.Fatalf("GetInformer: %v", err)
	}
	go func() { _ = c.Start(t.Context()) }() // it ends with the test
	if !c.WaitForCacheSync(t.Context()) {
		t.Fatal("the cache has not listed the claims")
	}
	return c
}
