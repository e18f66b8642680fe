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

// The remedy advises a smaller block if a block was asked for, and not if a single address was.
func TestRemedy_AdvisesNoSmallerAddress(t *testing.T) {
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
		"a range":             {asks("/28", gen.ForRange()), false},
	} {
		for _, got := range []string{AnswerOf(test.object).Remedy, exit.HintOf(AnswerOf(test.object).Err(test.object))} {
			if strings.Contains(got, "smaller") != test.smaller || !strings.Contains(got, "release a block") {
				t.Errorf("%s: the remedy is %q; it is to advise a smaller block: %t", name, got, test.smaller)
			}
		}
	}
}

// If a pool has its CIDR and gives nothing out, it says why: by a reason in the tree, and in words on its own page.
func TestUnready_SaysWhyAPoolGivesNothingOut(t *testing.T) {
	t.Parallel()
	condition := func(kind string, status metav1.ConditionStatus, reason ipamv1alpha1.Reason, message string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: string(reason), Message: message}
	}
	holds := condition(ipamv1alpha1.ConditionAllocated, metav1.ConditionTrue, ipamv1alpha1.ReasonAllocationSucceeded, "holds 10.0.0.0/24")
	for name, test := range map[string]struct {
		conditions []metav1.Condition
		want, says string
	}{
		"serves":      {[]metav1.Condition{holds, condition(ipamv1alpha1.ConditionReady, metav1.ConditionTrue, ipamv1alpha1.ReasonAllocationSucceeded, "")}, "", ""},
		"has no CIDR": {[]metav1.Condition{condition(ipamv1alpha1.ConditionAllocated, metav1.ConditionFalse, ipamv1alpha1.ReasonOverlap, "")}, "Overlap", ""},
		"serves no class": {[]metav1.Condition{
			holds, condition(ipamv1alpha1.ConditionReady, metav1.ConditionFalse, ipamv1alpha1.ReasonUniqueWithinDiffers, "a, not b"),
			condition(ipamv1alpha1.ConditionClassesDiffer, metav1.ConditionTrue, ipamv1alpha1.ReasonUniqueWithinDiffers, "a, not b"),
		}, "UniqueWithinDiffers", "it serves none of its classes: a, not b"},
		"drains": {[]metav1.Condition{
			holds, condition(ipamv1alpha1.ConditionReady, metav1.ConditionFalse, ipamv1alpha1.ReasonBlockInUse, "of claim a"),
			condition(ipamv1alpha1.ConditionDraining, metav1.ConditionTrue, ipamv1alpha1.ReasonBlockInUse, "of claim a"),
		}, "BlockInUse", "of claim a"},
	} {
		pool := gen.Pool("p")
		pool.Status.AllocatedCIDR, pool.Status.Conditions = "10.0.0.0/24", test.conditions
		if got, says := Unready(test.conditions), strings.Join(Warnings(pool), "; "); got != test.want || says != test.says {
			t.Errorf("of a pool that %s the reason is %q, and the warnings are %q; want %q and %q", name, got, says, test.want, test.says)
		}
	}
}

// Whether claims that were never stored hold blocks of a pool is read from the reason of a condition, and not from its
// message.
func TestUnstored_NamesClaimsThatHoldBlocksForATime(t *testing.T) {
	t.Parallel()
	const said = "the pool holds 2 blocks, of claim default/a, claim default/web (answered, not stored yet: free by 12:02:00)"
	for reason, want := range map[ipamv1alpha1.Reason]string{ipamv1alpha1.ReasonClaimNotStored: said, ipamv1alpha1.ReasonInUse: ""} {
		pool := gen.Pool("p")
		pool.Status.Conditions = []metav1.Condition{{Type: ipamv1alpha1.ConditionInUse, Status: metav1.ConditionTrue, Reason: string(reason), Message: said}}
		if got := Unstored(pool); got != want {
			t.Errorf("with the reason %s Unstored = %q; want %q", reason, got, want)
		}
	}
	if got := Unstored(gen.Pool("q")); got != "" {
		t.Errorf("Unstored of a pool without a status = %q; want nothing", got)
	}
}

// An IPv4 address in IPv6 form is read as the IPv4 address.
func TestParseBlock_ReadsMappedAddressesAsIPv4(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"::ffff:10.8.1.7": "10.8.1.7/32", "::ffff:10.8.1.7/128": "10.8.1.7/32", "::ffff:10.8.1.0/120": "10.8.1.0/24", "::ffff:0:0/95": "::fffe:0:0/95", "2001:db8::7": "2001:db8::7/128",
	} {
		if got, err := ParseBlock(text); err != nil || got.String() != want {
			t.Errorf("parseBlock(%s) = %s, %v; want %s", text, got, err, want)
		}
	}
}

// A text that is accepted as an address is read as a block without host bits. The block can be written, and is read as
// the same block again. Any other text is refused with an example of what to write.
func FuzzParseBlock(f *testing.F) {
	for _, text := range []string{"192.0.2.7", "192.0.2.7/28", "2001:DB8::1", "::ffff:10.0.0.1", "fe80::1%eth0", "010.0.0.1", "10.0.0.0/33", "", "10.0.0.0 /8"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		block, err := ParseBlock(text)
		if err != nil {
			if !strings.Contains(err.Error(), "write one such as") {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		if block != block.Masked() {
			t.Errorf("%q is read as %s", text, block)
		}
		if again, err := ParseBlock(block.String()); err != nil || again != block {
			t.Errorf("%q is read as %s, and that as %s, %v", text, block, again, err)
		}
	})
}

// The condition Unknown that the schema sets on a new object is no answer.
func TestAnswerOf_TakesUnknownForNoAnswer(t *testing.T) {
	t.Parallel()
	class := gen.Class("c")
	class.Status.Conditions = []metav1.Condition{{Type: ipamv1alpha1.ConditionReady, Status: metav1.ConditionUnknown, Reason: string(ipamv1alpha1.ReasonPending)}}
	answer := AnswerOf(class)
	if answer.Allocated != nil || answer.Remedy != "" {
		t.Errorf("the answer of a new class is %+v; want none", answer)
	}
	if err := answer.Err(class); err == nil || exit.CodeOf(err) != exit.Unavailable {
		t.Errorf("the error of a new class is %v; want one that ends with %d", err, exit.Unavailable)
	}
}
