package claim

import (
	"cmp"
	"errors"
	"fmt"
	"math/big"
	"net/netip"
	"slices"
	"strings"
	"time"

	"go4.org/netipx"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
	"github.com/kcp-ipam/ipam/controllers/internal/resolve"
	"github.com/kcp-ipam/ipam/internal/cidr"
)

// miss is a candidate that refused a request, with its error.
type miss struct {
	resolve.Candidate
	err error
}

// excluded returns the candidate's exclusion that overlaps the requested address. ok is false if the candidate refused
// for another reason.
func (m miss) excluded() (excluded netip.Prefix, ok bool) {
	refused, ok := errors.AsType[*ledger.ExcludedError](m.err)
	if !ok {
		return netip.Prefix{}, false
	}
	return refused.Excluded, true
}

// over reports whether the candidate refused because of a quota.
func (m miss) over() bool {
	_, over := errors.AsType[*ledger.QuotaError](m.err)
	return over
}

// refusedRoom reports whether err says only that this one pool cannot serve the request. Another pool still may.
func refusedRoom(err error) bool {
	var exhausted *ledger.ExhaustedError
	var excluded *ledger.ExcludedError
	var frozen *ledger.FrozenError
	var over *ledger.QuotaError
	var overlap *ledger.OverlapError
	return errors.As(err, &exhausted) || errors.As(err, &excluded) || errors.As(err, &frozen) ||
		errors.Is(err, ledger.ErrInUse) || errors.Is(err, ledger.ErrMixed) || errors.As(err, &overlap) ||
		errors.As(err, &over) && over.Class == ""
}

// overClass reports whether err says that the workspace has reached the limit of the class, which counts in every pool.
func overClass(err error) bool {
	over, ok := errors.AsType[*ledger.QuotaError](err)
	return ok && over.Class != ""
}

// refusal returns why no candidate served the claim, and says how many candidates were not asked.
func refusal(plan resolve.Plan, tried []miss) *outcome.Refusal {
	refusal := missed(plan, tried)
	if plan.Passed > 0 {
		refusal.Message = fmt.Sprintf("%d pools were asked, and %d were not, as a claim asks %d at most: "+
			"name a pool, or a class or labels of fewer pools; %s",
			mostAsked, plan.Passed, mostAsked, refusal.Message)
	}
	return refusal
}

// missed returns why the candidates that were tried did not serve the claim.
func missed(plan resolve.Plan, tried []miss) *outcome.Refusal {
	if len(tried) == 0 {
		return &outcome.Refusal{Reason: noPool(plan), Message: "the pool is being set up or taken down"}
	}
	for _, m := range tried {
		if frozen, ok := errors.AsType[*ledger.FrozenError](m.err); ok {
			return &outcome.Refusal{
				Reason: ipamv1alpha1.ReasonError, Message: fmt.Sprintf("pool %q is frozen: %v", m.Pool.Name, frozen),
			}
		}
	}
	if slices.ContainsFunc(tried, miss.over) {
		return &outcome.Refusal{Reason: ipamv1alpha1.ReasonQuotaExceeded, Message: say(tried)}
	}
	if exact := tried[0].Exact; exact.IsValid() && len(plan.Unfit) == 0 {
		of := ""
		if plan.Number != nil {
			of = fmt.Sprintf("number %d: ", plan.Number.Value)
		}
		if said, all := reserved(exact, tried); all {
			return &outcome.Refusal{Reason: ipamv1alpha1.ReasonAddressReserved, Message: of + said}
		}
		return &outcome.Refusal{Reason: ipamv1alpha1.ReasonAddressInUse, Message: of + taken(exact, tried)}
	}
	full := &outcome.Refusal{Reason: ipamv1alpha1.ReasonPoolExhausted, Message: say(tried)}
	if len(plan.Unfit) > 0 {
		full.Message += "; " + resolve.Messages(plan.Unfit)
	}
	if len(plan.Candidates) == 1 && len(plan.Unfit) == 0 {
		full.Pool = tried[0].Pool.Name
	}
	return full
}

// taken says why an address is not available: it is in use, or it is cooling.
func taken(exact netip.Prefix, tried []miss) string {
	said := fmt.Sprintf("%s is in use, in part or whole", exact)
	for _, m := range tried {
		if cooling, ok := errors.AsType[*ledger.CoolingError](m.err); ok {
			said = fmt.Sprintf("%s: %v", exact, cooling)
		} else if errors.Is(m.err, ledger.ErrInUse) {
			return fmt.Sprintf("%s is in use, in part or whole", exact)
		}
	}
	return said
}

// reserved says for each pool why it withholds an address. all is false if a pool refused for another reason.
func reserved(exact netip.Prefix, tried []miss) (said string, all bool) {
	withheld := make([]string, len(tried))
	for i, m := range tried {
		excluded, ok := m.excluded()
		if !ok {
			return "", false
		}
		withheld[i] = withholds(m.Pool, exact, excluded)
	}
	return fmt.Sprintf("%s is never handed out: %s; "+
		"ask for an address outside of that, or for a prefix length instead of an address",
		exact, strings.Join(slices.Compact(withheld), "; ")), true
}

// withholds says which part of a pool's spec withholds an address. excluded is the exclusion of the ledger, which
// merges the parts.
func withholds(pool *ipamv1alpha1.IPPool, exact, excluded netip.Prefix) string {
	for _, text := range pool.Spec.ExcludedCIDRs {
		if cidr, err := netip.ParsePrefix(string(text)); err == nil && cidr.Overlaps(exact) {
			return fmt.Sprintf("pool %q excludes %s", pool.Name, cidr)
		}
	}
	if window, err := netip.ParsePrefix(pool.Status.AllocatedCIDR); err == nil {
		for _, w := range pool.Spec.Withheld(window) {
			if exact.Contains(w.Address) {
				return fmt.Sprintf("%s is the %s of pool %q", w.Address, w.As, pool.Name)
			}
		}
	}
	return fmt.Sprintf("pool %q reserves %s", pool.Name, excluded)
}

// say lists why each pool refused. If the limit of the class refused, it says only that.
func say(tried []miss) string {
	said := make([]string, len(tried))
	for i, m := range tried {
		said[i] = fmt.Sprintf("pool %q: %v", m.Pool.Name, m.err)
		if errors.As(m.err, new(*ledger.ExhaustedError)) {
			said[i] += excluding(m.Pool)
		}
		if errors.Is(m.err, ledger.ErrMixed) {
			said[i] = fmt.Sprintf("pool %q: its classes have changed in uniqueWithin, and it still has blocks from before: "+
				"release those first, or use another pool", m.Pool.Name)
		}
		if _, overlaps := errors.AsType[*ledger.OverlapError](m.err); overlaps {
			said[i] = fmt.Sprintf("pool %q: another pool of its addressDomain overlaps it, "+
				"so that it can have no address spaces; use another pool, or a CIDR of its own", m.Pool.Name)
		}
		if over, ok := errors.AsType[*ledger.QuotaError](m.err); ok && over.Class != "" {
			return fmt.Sprintf("class %q: %v", over.Class, over)
		}
	}
	return strings.Join(slices.Compact(said), "; ")
}

// excluding says how many addresses of a full pool its exclusions withhold. The other addresses are in use. The text is
// empty if nothing is excluded.
func excluding(pool *ipamv1alpha1.IPPool) string {
	window, err := netip.ParsePrefix(pool.Status.AllocatedCIDR)
	if err != nil {
		return ""
	}
	var within netipx.IPSetBuilder
	for _, text := range pool.Spec.ExcludedCIDRs {
		if excluded, err := netip.ParsePrefix(string(text)); err == nil && excluded.Overlaps(window) {
			within.AddPrefix(cidr.Narrower(window, excluded))
		}
	}
	set, _ := within.IPSet() // only an invalid range would be an error
	total := new(big.Int)
	for _, part := range set.Prefixes() {
		total.Add(total, cidr.Size(part))
	}
	switch {
	case total.Sign() == 0:
		return ""
	case total.Cmp(cidr.Size(window)) == 0:
		return "; spec.excludedCIDRs withholds all of it"
	}
	return fmt.Sprintf("; spec.excludedCIDRs withholds %s of its %s addresses", total, cidr.Size(window))
}

// noPool returns the reason of a refusal if there was no candidate that could be asked. The catalog may be older than
// the ledger.
func noPool(plan resolve.Plan) ipamv1alpha1.Reason {
	if plan.ClassName == "" {
		return ipamv1alpha1.ReasonPoolNotFound
	}
	return ipamv1alpha1.ReasonNoOfferingPool
}

// retains returns the refusal of a claim whose name is that of a retained record.
func retains(record *ipamv1alpha1.IPAllocation) *outcome.Refusal {
	return &outcome.Refusal{
		Reason: ipamv1alpha1.ReasonAllocationRetained,
		Message: keeps(record) + "; delete it, use another name, or set spec.retainedPolicy to Reuse in a new claim, " +
			"which then gets that block",
	}
}

// otherwise returns the refusal of a claim that wants to reuse a retained block, but asks for something else.
func otherwise(record *ipamv1alpha1.IPAllocation, why string) *outcome.Refusal {
	return &outcome.Refusal{
		Reason: ipamv1alpha1.ReasonAllocationRetained,
		Message: keeps(record) + ", and this claim cannot reuse it: " + why +
			"; delete the IPAllocation, use another name, or claim what it was given for",
	}
}

// keeps names the block that a retained record keeps, and says until when.
func keeps(record *ipamv1alpha1.IPAllocation) string {
	said := fmt.Sprintf("IPAllocation %s keeps %s from a former claim of this name",
		record.Name, record.Status.AllocatedCIDR)
	if at := record.ExpiresAt(); !at.IsZero() {
		said += " until " + at.Format(time.RFC3339)
	}
	return said
}

// refused sets the status of a claim that waits. If the claim shows a block, it keeps the block, and only its
// conditions say that something is retried.
func refused(claim *ipamv1alpha1.IPClaim, refusal *outcome.Refusal) {
	status := &claim.Status
	if status.AllocatedCIDR != "" {
		outcome.Retry(&status.Conditions, claim.Generation, refusal)
		return
	}
	status.Address, status.Number, status.PoolRef, status.BoundAllocationRef = "", nil, nil, nil
	if outcome.Changed(status.Conditions, refusal) { // a claim is not written for its columns alone
		status.ClassName = cmp.Or(status.ClassName, claim.Spec.ClassName)
	}
	status.Requested = cmp.Or(status.Requested, ipamv1alpha1.RequestedColumn(claim.Spec))
	status.Phase = ipamv1alpha1.ClaimPending
	if refusal.Reason == ipamv1alpha1.ReasonError {
		status.Phase = ipamv1alpha1.ClaimError
	}
	status.ObservedGeneration = claim.Generation
	outcome.Refuse(&status.Conditions, claim.Generation, refusal)
}

// requested returns the text of the address or length that a claim asks for, else of the length that the plan gives. It
// is empty if neither is known.
func requested(spec ipamv1alpha1.IPClaimSpec, plan resolve.Plan) string {
	length := plan.Length
	if n := len(plan.Chain); n > 0 && spec.Target == ipamv1alpha1.TargetScopeRange {
		length = plan.Chain[n-1].Length
	}
	if length == 0 && len(plan.Candidates) > 0 {
		length = plan.Candidates[0].Length
	}
	if text := ipamv1alpha1.RequestedColumn(spec); text != "" || length == 0 {
		return text
	}
	return fmt.Sprintf("/%d", length)
}
