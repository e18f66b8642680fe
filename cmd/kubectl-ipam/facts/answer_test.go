package facts

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/test/gen"
)

// The remedy advises a smaller block for a block, and not for a single address.
func TestRemedy_AddressIsNotToBeSmaller(t *testing.T) {
	t.Parallel()
	full := []metav1.Condition{{Type: ipamv1alpha1.ConditionAllocated, Status: metav1.ConditionFalse, Reason: string(ipamv1alpha1.ReasonPoolExhausted)}}
	asks := func(requested string, options ...gen.ClaimOption) client.Object {
		claim := gen.Claim("a", options...)
		claim.Status.Requested, claim.Status.IPFamily, claim.Status.Conditions = requested, ipamv1alpha1.IPv4, full
		return claim
	}
	child := gen.Pool("p", gen.ChildOf("lab", 32))
	child.Status.Conditions = full
	for name, test := range map[string]struct {
		object  client.Object
		smaller bool
	}{
		"an address":          {asks("", gen.Address("192.0.2.7")), false},
		"a length":            {asks("", gen.Length(32)), false},
		"a length of a class": {asks("/32"), false},
		"a child pool":        {child, false},
		"a block":             {asks("/28"), true},
	} {
		for _, got := range []string{AnswerOf(test.object).Remedy, exit.HintOf(AnswerOf(test.object).Err(test.object))} {
			if strings.Contains(got, "smaller") != test.smaller || !strings.Contains(got, "release a block") {
				t.Errorf("%s: the remedy is %q; it is to advise a smaller block: %t", name, got, test.smaller)
			}
		}
	}
}
