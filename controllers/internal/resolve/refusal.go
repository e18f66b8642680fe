package resolve

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
)

func refuse(reason ipamv1alpha1.Reason, format string, args ...any) *outcome.Refusal {
	return &outcome.Refusal{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// first chooses the refusal to report among several, and joins the messages of all refusals with the same reason.
// Without any, it returns the parameter none.
func first(refusals []*outcome.Refusal, none *outcome.Refusal) *outcome.Refusal {
	if len(refusals) == 0 {
		return none
	}
	reported := slices.MinFunc(refusals, func(a, b *outcome.Refusal) int { return cmp.Compare(rank(a), rank(b)) })
	return &outcome.Refusal{Reason: reported.Reason, Message: Messages(because(refusals, reported.Reason))}
}

// rank orders refusals for reporting: a refusal that waits comes before one that is stalled.
func rank(r *outcome.Refusal) int {
	switch r.Reason {
	case ipamv1alpha1.ReasonPoolExhausted:
		return 0
	case ipamv1alpha1.ReasonAddressOutOfRange, ipamv1alpha1.ReasonAddressReserved:
		return 2
	case ipamv1alpha1.ReasonPrefixLengthRejected:
		return 3
	case ipamv1alpha1.ReasonFamilyMismatch:
		return 4
	default: // it waits for a pool
		return 1
	}
}

// because returns the refusals that have this reason.
func because(refusals []*outcome.Refusal, reason ipamv1alpha1.Reason) []*outcome.Refusal {
	return slices.DeleteFunc(slices.Clone(refusals), func(r *outcome.Refusal) bool { return r.Reason != reason })
}

// Messages joins the messages of refusals, each of them once.
func Messages(refusals []*outcome.Refusal) string {
	var said []string
	for _, r := range refusals {
		if !slices.Contains(said, r.Message) {
			said = append(said, r.Message)
		}
	}
	return strings.Join(said, "; ")
}
