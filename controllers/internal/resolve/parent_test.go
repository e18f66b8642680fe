package resolve_test

import (
	"errors"
	"slices"
	"testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
	"github.com/kcp-ipam/ipam/controllers/internal/resolve"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A pool by class is carved from the pools in which a claim by that class would get its block, and is refused for the
// same reasons. A class whose addresses belong to a scope offers no pools.
func TestParentQuery_ResolvesAsAClaimOfTheClass(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		option gen.PoolOption
		change func(w *world)
		want   []string
		reason ipamv1alpha1.Reason
	}{
		"of a length":                {option: gen.CarvedBy("c", 26), want: []string{"a", "b"}},
		"of the default length":      {option: gen.CarvedBy("c", 0), want: []string{"a", "b"}},
		"an unknown class":           {option: gen.CarvedBy("d", 26), reason: ipamv1alpha1.ReasonClassNotFound},
		"a class that admits others": {option: gen.CarvedBy("c", 26), change: func(w *world) { w.classes[0].Spec.Visibility = ipamv1alpha1.VisibilityConsumer }, reason: ipamv1alpha1.ReasonClassNotFound},
		"too large":                  {option: gen.CarvedBy("c", 8), reason: ipamv1alpha1.ReasonPrefixLengthRejected},
		"an exact block":             {option: gen.CarvedByAt("c", "10.0.0.16/28"), want: []string{"a", "b"}},
		"a block in no pool":         {option: gen.CarvedByAt("c", "192.0.2.0/28"), reason: ipamv1alpha1.ReasonAddressOutOfRange},
		"no pool":                    {option: gen.CarvedBy("c", 26), change: func(w *world) { w.pools = nil }, reason: ipamv1alpha1.ReasonNoOfferingPool},
		"a class with uniqueWithin": {option: gen.CarvedBy("c", 26), change: func(w *world) { w.classes[0].Spec.UniqueWithin = []string{"network"} },
			reason: ipamv1alpha1.ReasonNoOfferingPool},
		"a class with poolPer": {option: gen.CarvedBy("c", 26), change: func(w *world) { w.classes[0].Spec.PoolPer = []string{"project"} },
			reason: ipamv1alpha1.ReasonNoOfferingPool},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := place()
			if tt.change != nil {
				tt.change(&w)
			}
			plan, err := resolve.ParentQuery{Child: gen.Pool("x", tt.option), From: db, Platform: platform}.Resolve(w)
			var refusal *outcome.Refusal
			if errors.As(err, &refusal); (refusal == nil) != (tt.reason == "") || refusal != nil && refusal.Reason != tt.reason {
				t.Fatalf("Resolve = %v, want reason %q", err, tt.reason)
			}
			if got := pools(plan); err == nil && !slices.Equal(got, tt.want) {
				t.Errorf("candidates = %v, want %v", got, tt.want)
			}
		})
	}
}
