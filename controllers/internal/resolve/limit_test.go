package resolve_test

import (
	"testing"

	"github.com/kcp-ipam/ipam/test/gen"
)

// The limit of the class comes with the plan, whatever its size. A claim that names its
// pool has none: what it holds is by no class.
func TestResolve_LimitOfAClass(t *testing.T) {
	const many = "340282366920938463463374607431768211456"
	w := place()
	w.classes[0].Spec.MaxPerConsumer = many
	plan, err := query(web, gen.Claim("x", gen.OfClass("c"))).Resolve(w)
	if err != nil || plan.Limit.String() != many {
		t.Errorf("limit = %v, %v", plan.Limit, err)
	}
	plan, err = query(web, gen.Claim("x", gen.FromPool("own"), gen.Length(28))).Resolve(w)
	if err != nil || plan.Limit != nil {
		t.Errorf("limit = %v, %v", plan.Limit, err)
	}
}
