package page

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/facts"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
)

// attention is something that somebody has to look at.
type attention struct {
	// Bad is what is broken or full; the rest is worth knowing.
	Bad bool
	// What is the object, Link where it is shown; Link may be empty.
	What, Link string
	// Is says what is the matter in a word or two, and Because why.
	Is, Because string
}

// attentionOf is what conditions and figures of all objects ask for, the worst first.
func attentionOf(s *Snapshot) []attention {
	var all []attention
	for i := range s.Pools {
		if p := &s.Pools[i]; p.Object != nil {
			all = append(all, poolAttention(p)...)
		}
	}
	for i := range s.Classes {
		all = append(all, classAttention(&s.Classes[i])...)
	}
	for _, c := range s.Claims {
		all = append(all, claimAttention(c)...)
	}
	slices.SortStableFunc(all, func(a, b attention) int {
		if a.Bad == b.Bad {
			return cmp.Or(cmp.Compare(a.What, b.What), cmp.Compare(a.Is, b.Is))
		}
		if a.Bad {
			return -1
		}
		return 1
	})
	return all
}

func poolAttention(p *Pool) []attention {
	var all []attention
	add := func(bad bool, is, because string) {
		all = append(all, attention{bad, "pool " + p.Title(), p.Path(), is, because})
	}
	status := p.Object.Status
	// A pool that has its CIDR may be frozen: then it is only not Ready, and the message says so.
	for _, kind := range []string{ipamv1alpha1.ConditionAllocated, ipamv1alpha1.ConditionReady} {
		if c := meta.FindStatusCondition(status.Conditions, kind); c == nil || c.Status != metav1.ConditionTrue {
			add(true, "not ready", saidBy(c))
			break
		}
	}
	switch percent := status.UtilizationPercent; {
	case status.Phase == ipamv1alpha1.PoolExhausted:
		add(true, "full", "no address is free")
	case percent != nil && *percent >= 90:
		said := facts.Utilisation(p.Object) + " used"
		if free := facts.LargestFree(p.Object); free != "" {
			said += ", largest free block " + free
		}
		add(false, "nearly full", said)
	}
	marked(status.Conditions, add)
	return all
}

func classAttention(c *ipamv1alpha1.IPClass) []attention {
	what := "class " + c.Name
	ready := meta.FindStatusCondition(c.Status.Conditions, ipamv1alpha1.ConditionReady)
	switch {
	case ready == nil || ready.Status != metav1.ConditionTrue:
		return []attention{{true, what, "", "not ready", saidBy(ready)}}
	case c.Status.OfferingPools == 0:
		return []attention{{false, what, "", "no pool", "no ready pool of the platform backs it"}}
	default:
		return nil
	}
}

func claimAttention(c Claim) []attention {
	var all []attention
	marked(c.Status.Conditions, func(bad bool, is, because string) {
		all = append(all, attention{bad, "claim " + space.In(c.Namespace+"/"+c.Name, c.Workspace), searchFor(c.Namespace + "/" + c.Name), is, because})
	})
	return all
}

// marked calls add for each condition that somebody has to look at.
func marked(conditions []metav1.Condition, add func(bad bool, is, because string)) {
	for _, mark := range []struct {
		kind, is string
		bad      bool
	}{
		{ipamv1alpha1.ConditionDraining, "draining", false},
		{ipamv1alpha1.ConditionOverlapping, "overlaps", false},
		{ipamv1alpha1.ConditionDisputed, "disputed", true},
		{ipamv1alpha1.ConditionConsumerGone, "consumer gone", false},
	} {
		if c := meta.FindStatusCondition(conditions, mark.kind); c != nil && c.Status == metav1.ConditionTrue {
			add(mark.bad, mark.is, c.Message)
		}
	}
	if c := meta.FindStatusCondition(conditions, ipamv1alpha1.ConditionSliced); c != nil && c.Status == metav1.ConditionFalse {
		add(false, "slices wait", saidBy(c))
	}
}

// saidBy is reason and message of a condition; nil is one that is not there yet.
func saidBy(c *metav1.Condition) string {
	if c == nil {
		return "there is no answer yet"
	}
	return c.Reason + ": " + c.Message
}
