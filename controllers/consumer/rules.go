package consumer

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
)

// finding is what a look has found.
type finding struct {
	// sight is Alive, Gone, Hidden or Unknown.
	sight live.Verdict
	// rule by which the consumer is gone; empty if it is well, or was not seen.
	rule ipamv1alpha1.Reason
	// what became of the consumer, as the end of a sentence that begins with it.
	what string
	// proven: it may be acted upon.
	proven bool
}

// refusal is the finding as a condition says it; nil where there is nothing to say.
func (f finding) refusal(consumer string) *outcome.Refusal {
	if f.rule == "" {
		return nil
	}
	return &outcome.Refusal{Reason: f.rule, Message: consumer + " " + f.what + "; the claim keeps its block until it is deleted"}
}

// result names the finding in a metric.
func (f finding) result() string {
	switch {
	case f.sight == live.Hidden:
		return "Hidden"
	case f.sight == live.Unknown:
		return "Unknown"
	case f.rule == "":
		return "Well"
	default:
		return string(f.rule)
	}
}

// judge applies the rules to what was seen of a claim's consumer, in their order.
func (o Options) judge(claim *ipamv1alpha1.IPClaim, sight live.Sight) finding {
	switch sight.Verdict {
	case live.Gone:
		return finding{sight: live.Gone, rule: ipamv1alpha1.ReasonConsumerNotFound, what: "is gone", proven: sight.Proven}
	case live.Alive:
		found := o.judgeAlive(claim, sight.Object)
		found.sight, found.proven = live.Alive, true
		return found
	default:
		return finding{sight: sight.Verdict}
	}
}

func (o Options) judgeAlive(claim *ipamv1alpha1.IPClaim, obj *unstructured.Unstructured) finding {
	if uid := claim.Spec.OwnerRef.UID; uid != "" && uid != obj.GetUID() {
		return finding{
			rule: ipamv1alpha1.ReasonConsumerReplaced,
			what: fmt.Sprintf("has the UID %s, not %s: another object has its name", obj.GetUID(), uid),
		}
	}
	if o.Terminating && obj.GetDeletionTimestamp() != nil {
		return finding{rule: ipamv1alpha1.ReasonConsumerTerminating, what: "is being deleted"}
	}
	if o.Disrupted {
		if f := disruption(obj); f.rule != "" {
			return f
		}
	}
	path := o.Reported[kindOf(claim.Spec.OwnerRef).String()]
	if path == "" || claim.Status.AllocatedCIDR == "" {
		return finding{}
	}
	return mismatch(claim.Status.AllocatedCIDR, reported(obj.Object, strings.Split(path, ".")))
}

func kindOf(ref *ipamv1alpha1.OwnerRef) schema.GroupKind {
	return schema.GroupKind{Group: ref.APIGroup, Kind: ref.Kind}
}

// Conditions of a consumer, and reasons of the pod's, by which nobody uses its
// addresses any longer. Other disruptions of a pod end with its deletion, and until
// then it runs.
const (
	conditionLost       = "Lost"
	conditionDisruption = "DisruptionTarget"
	reasonNodeGone      = "DeletionByPodGC"
	reasonNodeTainted   = "DeletionByTaintManager"
)

// disruption looks for a condition that says that the consumer is lost or disrupted.
func disruption(obj *unstructured.Unstructured) finding {
	conditions, _, err := unstructured.NestedSlice(obj.Object, "status", "conditions")
	if err != nil {
		return finding{} // a status of another form says nothing
	}
	for _, item := range conditions {
		condition, _ := item.(map[string]any)
		if condition["status"] != "True" {
			continue
		}
		kind, reason := condition["type"], condition["reason"]
		switch {
		case kind == conditionLost, kind == conditionDisruption && reason == reasonNodeGone:
			return finding{rule: ipamv1alpha1.ReasonConsumerLost, what: fmt.Sprintf("is lost: its condition %s is True", kind)}
		case kind == conditionDisruption && reason == reasonNodeTainted:
			return finding{rule: ipamv1alpha1.ReasonConsumerDisrupted, what: "is disrupted: its node was told to end it"}
		}
	}
	return finding{}
}

// mismatch compares a claim's block with the addresses that its consumer reports. One
// that reports none has not come so far, and uses the address for all we know.
func mismatch(allocated string, addresses []netip.Addr) finding {
	block, err := netip.ParsePrefix(allocated)
	if err != nil || len(addresses) == 0 || slices.ContainsFunc(addresses, block.Contains) {
		return finding{}
	}
	return finding{
		rule: ipamv1alpha1.ReasonConsumerAddressMismatch,
		what: fmt.Sprintf("reports %s, and no address of %s", addresses[0], block),
	}
}

// reported collects the addresses at a path. Where it meets a list it goes on in every
// item. What is no address, nor a network with one in front, is passed over.
func reported(value any, path []string) []netip.Addr {
	var found []netip.Addr
	switch value := value.(type) {
	case []any:
		for _, item := range value {
			found = append(found, reported(item, path)...)
		}
	case map[string]any:
		if len(path) > 0 {
			return reported(value[path[0]], path[1:])
		}
	case string:
		text, _, _ := strings.Cut(value, "/")
		if address, err := netip.ParseAddr(text); err == nil && len(path) == 0 {
			found = append(found, address.Unmap().WithZone(""))
		}
	}
	return found
}
