package release

import (
	"context"
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/testbed"
)

func TestPublished(t *testing.T) {
	t.Parallel()
	claim := gen.Claim("c")
	holder := ledger.Holder{Claim: ledger.ClaimID(claim.UID), Cluster: "w", Namespace: claim.Namespace, Name: claim.Name}
	own := gen.Allocation("c", "p", "10.0.0.0/28")
	own.Spec.ClaimRef.UID = claim.UID
	former := own.DeepCopy()
	former.Spec.ClaimRef.UID = "former"
	unserved := apierrors.NewGenericServerResponse(404, "get", ipamv1alpha1.GroupVersion.WithResource("ipallocations").GroupResource(), "", "404 page not found", 0, true)
	for name, test := range map[string]struct {
		verdict  live.Verdict
		records  []client.Object
		fault    error
		recorded bool
		shown    bool
		fails    bool
	}{
		"with its record":             {verdict: live.Alive, records: []client.Object{own}, recorded: true, shown: true},
		"without a record":            {verdict: live.Alive, shown: true},
		"with that of a former claim": {verdict: live.Alive, records: []client.Object{former}, shown: true},
		"records are not served":      {verdict: live.Alive, fault: unserved, fails: true},
		"no answer about the record":  {verdict: live.Alive, fault: errors.New("away"), fails: true},
		"no server knows":             {verdict: live.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			workspace := testbed.NewClient(t).WithObjects(test.records...).WithInterceptorFuncs(interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
					if test.fault != nil {
						return test.fault
					}
					return c.Get(ctx, key, obj, opts...)
				},
			}).Build()
			answer := live.Answer{Verdict: test.verdict, Client: workspace}
			if test.verdict == live.Alive {
				answer.Object = claim
			}
			c := &Controller{Options: Options{Oracle: &oracle{answer: answer}}}
			got, recorded, err := c.Published(t.Context(), holder)
			if (got != nil) != test.shown || recorded != test.recorded || (err != nil) != test.fails {
				t.Errorf("Published = %v, %t, %v; want shown %t, recorded %t, an error %t", got, recorded, err, test.shown, test.recorded, test.fails)
			}
		})
	}
}
