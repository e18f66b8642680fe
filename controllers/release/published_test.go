package release

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/testbed"
)

func TestPublished_ReadsTheClaimAndItsRecord(t *testing.T) {
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

// When Released returns, the record of a claim that is gone is deleted, and its block is free, whatever the policy. If
// the claim exists, Released returns at once, and record and block stay.
func TestReleased_ReturnsWhenRecordAndBlockAreGone(t *testing.T) {
	for name, tt := range map[string]struct {
		verdict live.Verdict
		policy  ledger.ReclaimPolicy
		gone    bool
	}{
		"gone":           {live.Gone, ledger.Delete, true},
		"gone, retained": {live.Gone, ledger.Retain, true},
		"there":          {live.Alive, ledger.Delete, false},
	} {
		record := gen.Allocation("c", "p", "10.0.0.0/28")
		s := newScene(t, record)
		s.ledger.block.Policy = tt.policy
		s.oracle.answer = live.Answer{Verdict: tt.verdict, Client: s.workspace}
		if gone, err := s.Released(t.Context(), "w", record); gone != tt.gone || err != nil {
			t.Errorf("%s: Released = %t, %v; want %t", name, gone, err, tt.gone)
		}
		if now := s.record(t); (now == nil) != tt.gone || s.ledger.released != tt.gone {
			t.Errorf("%s: the record is %+v, the block is released: %t; want both gone: %t", name, now, s.ledger.released, tt.gone)
		}
	}
}

// While no server can say whether the claim is gone, Released waits until its context ends. It fails, and record and
// block stay.
func TestReleased_TakesNothingAwayInDoubt(t *testing.T) {
	record := gen.Allocation("c", "p", "10.0.0.0/28")
	s := newScene(t, record)
	s.oracle.answer = live.Answer{Verdict: live.Unknown, Client: s.workspace}
	ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
	defer cancel()
	if gone, err := s.Released(ctx, "w", record); gone || err == nil || s.record(t) == nil || s.ledger.released {
		t.Errorf("Released = %t, %v; want an error, and record and block as they were", gone, err)
	}
}

// If a record of the name has another UID, it was made later, and the record to be deleted is gone. Released leaves the
// later record as it is.
func TestReleased_KeepsALaterRecordOfTheName(t *testing.T) {
	later := gen.Allocation("c", "p", "10.0.0.16/28", gen.UID("later"))
	later.Spec.ClaimRef.UID = "uid-of-later"
	s := newScene(t, later)
	s.ledger.released = true
	s.oracle.answer = live.Answer{Verdict: live.Gone, Client: s.workspace}
	former := gen.Allocation("c", "p", "10.0.0.0/28")
	if gone, err := s.Released(t.Context(), "w", former); !gone || err != nil || s.record(t) == nil {
		t.Errorf("Released = %t, %v, the later record is %v; want true, and it as it was", gone, err, s.record(t))
	}
}
