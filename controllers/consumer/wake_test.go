package consumer

import (
	"context"
	"fmt"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// A tenant may delete the consumer of all its claims again and again. All workspaces share the handler that tells of that: it does not
// list the claims, and one request stands for them.
func TestWake_AgainAndAgain(t *testing.T) {
	t.Parallel()
	s := newScene(t, Options{})
	pool, claims := gen.Pool("p"), []client.Object{owned("of-a-pod")}
	for i := range 3 {
		owner := ipamv1alpha1.OwnerRef{APIGroup: ipamv1alpha1.GroupName, Kind: "IPPool", Name: "p"}
		claims = append(claims, gen.Claim(fmt.Sprint("of-p-", i), gen.OwnedBy(owner)))
	}
	whole := 0
	workspace := &testbed.Workspace{Client: testbed.NewClient(t).WithObjects(claims...).
		WithIndex(&ipamv1alpha1.IPClaim{}, ByConsumer, IndexClaimByConsumer).
		WithInterceptorFuncs(interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				if (&client.ListOptions{}).ApplyOptions(opts).Limit == 0 {
					whole++
				}
				return c.List(ctx, list, opts...)
			},
		}).Build()}
	s.Clusters = testbed.Clusters{"w": workspace}
	for range 100 {
		s.onPool("w", workspace).Delete(t.Context(), event.DeleteEvent{Object: pool}, s.queue)
		s.onPool("w", workspace).Delete(t.Context(), event.DeleteEvent{Object: gen.Pool("of-nobody")}, s.queue)
	}
	if whole != 0 || s.queue.Len() != 1 {
		t.Fatalf("the claims are listed %d times, with %d requests; want 0 and 1", whole, s.queue.Len())
	}
	all, _ := s.queue.Get()
	must.Get(s.Reconcile(t.Context(), all))(t)
	if whole != 1 || s.queue.Len() != 3 {
		t.Errorf("the claims are listed %d times, with %d requests; want 1 and 3", whole, s.queue.Len())
	}
	for range 3 {
		if got, _ := s.queue.Get(); got.Name == "of-a-pod" {
			t.Errorf("queued is %v, whose consumer is another", got)
		}
	}
}
