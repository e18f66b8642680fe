package release

import (
	"context"
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A server that starts may serve claims before it serves records. Its 404 about a
// record does not say that there is none.
func TestSettle_ARecordNotServedIsNotGone(t *testing.T) {
	notServed := apierrors.NewGenericServerResponse(http.StatusNotFound, "GET",
		schema.GroupResource{Group: "ipam.miloapis.com", Resource: records}, "alloc-x", "404 page not found", 0, true)
	for _, tt := range []struct {
		name   string
		policy ledger.ReclaimPolicy
		funcs  interceptor.Funcs
	}{
		{"when read", ledger.Retain, interceptor.Funcs{
			Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
				return notServed
			},
		}},
		{"when deleted", ledger.Delete, interceptor.Funcs{
			Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
				return notServed
			},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSceneWith(t, tt.funcs, gen.Allocation("c", "p", "10.0.0.0/28"))
			s.ledger.block.Policy = tt.policy
			s.oracle.answer = live.Answer{Verdict: live.Gone, Client: s.workspace}
			if settled, err := s.Settle(t.Context(), s.holder); settled || err == nil || s.ledger.released {
				t.Errorf("settled = %t, error = %v, released = %t; want an error and nothing freed", settled, err, s.ledger.released)
			}
		})
	}
}
