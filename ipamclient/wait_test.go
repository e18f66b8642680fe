package ipamclient_test

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/ipamclient"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// A claim may be deleted during the wait, and be held by a finalizer. If it has no block, it never gets one; if it
// has one, the block is about to be free. Wait ends in both cases, and returns no block.
func TestWait_EndsForADeletedClaim(t *testing.T) {
	t.Parallel()
	for name, status := range map[string]ipamv1alpha1.IPClaimStatus{
		"without a block": {},
		"with its block": {AllocatedCIDR: "10.0.0.0/28", Conditions: []metav1.Condition{
			{Type: ipamv1alpha1.ConditionAllocated, Status: metav1.ConditionTrue, Reason: string(ipamv1alpha1.ReasonAllocationSucceeded)},
		}},
	} {
		deleted := gen.Claim("web")
		deleted.Finalizers, deleted.DeletionTimestamp, deleted.Status = []string{"example.com/hold"}, new(metav1.Now()), status
		c := testbed.NewClient(t).WithObjects(deleted).
			WithIndex(&ipamv1alpha1.IPClaim{}, metav1.ObjectNameField, func(o client.Object) []string { return []string{o.GetName()} }).
			WithInterceptorFuncs(interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
					err := c.List(ctx, list, options...)
					list.SetResourceVersion("1") // which the fake leaves out, and a watch begins with
					return err
				},
			}).Build()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		a, err := ipamclient.Wait(ctx, c, gen.Claim("web"), nil)
		cancel()
		if !errors.Is(err, ipamclient.ErrTerminating) || a.Prefix.IsValid() {
			t.Errorf("%s, Wait returns %v, %v; want %v", name, a.Prefix, err, ipamclient.ErrTerminating)
		}
	}
}
