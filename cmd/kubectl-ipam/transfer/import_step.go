package transfer

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/facts"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/plan"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/screen"
	"github.com/kcp-ipam/ipam/ipamclient"
)

// These are the states of a line.
const (
	stateValid     = "valid"     // by itself; no server was asked
	stateNew       = "new"       // it would be created
	stateCreated   = "created"   // it is there now
	stateUnchanged = "unchanged" // it was there before
	stateFailed    = "failed"    // it is not there, or has not what it asked for
	stateUnknown   = "unknown"   // no server has answered; it may be there
	stateUntried   = "untried"   // the import ended before
)

// step is a line of a plan, with its object and its state.
type step struct {
	Line      int    `json:"line"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Block     string `json:"block"`
	State     string `json:"state"`
	Message   string `json:"message,omitempty"`

	object client.Object
	code   int // of the program, if the line failed
}

// stepsOf returns the lines of a plan: first the pools, then the claims.
func stepsOf(p *plan.Plan) []*step {
	steps := make([]*step, 0, len(p.Pools)+len(p.Claims))
	add := func(line int, block string, object client.Object) {
		steps = append(steps, &step{
			Line: line, Kind: facts.Kind(object), Namespace: object.GetNamespace(), Name: object.GetName(),
			Block: block, State: stateValid, object: object,
		})
	}
	for _, pool := range p.Pools {
		add(pool.Line, cmp.Or(string(pool.Spec.CIDR), string(pool.Spec.Address)), pool.IPPool)
	}
	for _, claim := range p.Claims {
		add(claim.Line, claim.Spec.Address, claim.IPClaim)
	}
	return steps
}

// printNames prints the objects as kubectl -o name does.
func printNames(w io.Writer, steps []*step) error {
	for _, s := range steps {
		screen.Line(w, "ip%s.%s/%s", s.Kind, ipamv1alpha1.GroupName, s.Name)
	}
	return nil
}

// compare finds the lines whose objects exist already. If an existing object is different, it adds a fault.
func compare(ctx context.Context, c client.Client, steps []*step, found *faults) error {
	pools, claims, err := thereFor(ctx, c, steps)
	if err != nil {
		return err
	}
	var wrong []plan.Problem
	for _, s := range steps {
		s.State = stateNew
		message := ""
		switch object := s.object.(type) {
		case *ipamv1alpha1.IPPool:
			message, err = s.comparePool(object, pools)
		case *ipamv1alpha1.IPClaim:
			if there, ok := claims[client.ObjectKeyFromObject(object)]; ok {
				message, s.State = differentClaim(object, there), stateUnchanged
			}
		}
		if err != nil {
			return err
		}
		if message != "" {
			wrong = append(wrong, plan.Problem{Line: s.Line, Message: message})
		}
	}
	found.add(exit.Conflict, wrong...)
	return nil
}

// thereFor reads the existing pools of the workspace, if a plan has pools, and the existing claims of the plan's
// namespaces.
func thereFor(
	ctx context.Context, c client.Client, steps []*step,
) ([]ipamv1alpha1.IPPool, map[client.ObjectKey]*ipamv1alpha1.IPClaim, error) {
	pools := &ipamv1alpha1.IPPoolList{}
	// A user of one namespace may not read pools.
	if slices.ContainsFunc(steps, func(s *step) bool { return s.Kind == "pool" }) {
		if err := c.List(ctx, pools); err != nil {
			return nil, nil, err
		}
	}
	claims, read := map[client.ObjectKey]*ipamv1alpha1.IPClaim{}, map[string]bool{}
	for _, s := range steps {
		if s.Namespace == "" || read[s.Namespace] {
			continue
		}
		read[s.Namespace] = true
		list := &ipamv1alpha1.IPClaimList{}
		if err := c.List(ctx, list, client.InNamespace(s.Namespace)); err != nil {
			return nil, nil, err
		}
		for i := range list.Items {
			claims[client.ObjectKeyFromObject(&list.Items[i])] = &list.Items[i]
		}
	}
	return pools.Items, claims, nil
}

// comparePool compares a pool with the existing ones, and returns what is in its way; empty: nothing is.
func (s *step) comparePool(pool *ipamv1alpha1.IPPool, there []ipamv1alpha1.IPPool) (string, error) {
	if at := slices.IndexFunc(there, func(p ipamv1alpha1.IPPool) bool { return p.Name == pool.Name }); at >= 0 {
		s.State = stateUnchanged
		return differentPool(pool, &there[at])
	}
	if pool.Spec.Carved() {
		return "", nil // its parent tells whether the block is free
	}
	block, err := netip.ParsePrefix(string(pool.Spec.CIDR))
	if err != nil {
		return "", err
	}
	for i := range there {
		other := &there[i]
		taken, err := netip.ParsePrefix(facts.CIDR(other))
		if err != nil || other.Spec.Carved() || !taken.Overlaps(block) {
			continue // the root pool above it is compared instead
		}
		if domain := pool.Spec.AddressDomain; domain != "" && domain == other.Spec.AddressDomain {
			continue
		}
		if taken == block {
			return fmt.Sprintf("pool %s repeats %s of pool %s, which is there: a pool has each address once; "+
				"write claims in pool %s, with a scope for each VRF if its class has uniqueWithin; "+
				"or import each VRF into a workspace of its own",
				pool.Name, block, other.Name, other.Name), nil
		}
		ways := "write claims in pool " + other.Name
		if taken.Bits() < block.Bits() {
			ways += ", or give the pool inside it, in the column pool or as spec.parentPoolRef"
		}
		if !meta.IsStatusConditionTrue(other.Status.Conditions, ipamv1alpha1.ConditionInUse) {
			ways += ", or put both pools in one addressDomain"
		}
		return fmt.Sprintf("pool %s (%s) overlaps pool %s (%s), which is there: %s",
			pool.Name, block, other.Name, taken, ways), nil
	}
	return "", nil
}

// differentPool says how an existing pool differs, or why it has no block; empty if it is the same, and has its block.
func differentPool(pool, there *ipamv1alpha1.IPPool) (string, error) {
	if !there.DeletionTimestamp.IsZero() {
		return fmt.Sprintf("pool %s is being deleted: import the plan again when it is gone", pool.Name), nil
	}
	differs, err := ipamclient.Differences(plan.Comparable(pool), plan.Comparable(there))
	if err != nil {
		return "", err
	}
	if len(differs) == 0 && there.Status.AllocatedCIDR == "" {
		return fmt.Sprintf("pool %s is there, and has no block: %s; "+
			"kubectl ipam pool show %s shows it, kubectl ipam pool release %s deletes it",
			pool.Name, facts.AnswerOf(there).Reason(), pool.Name, pool.Name), nil
	}
	if len(differs) == 0 {
		return "", nil
	}
	fixed := slices.DeleteFunc(slices.Clone(differs), func(d ipamclient.Difference) bool {
		return !immutable(d.Field, there)
	})
	if len(fixed) > 0 {
		return fmt.Sprintf("pool %s is there, and %s. That cannot be changed in a pool: "+
			"write what is there, or give the pool of the plan another name and another block; "+
			"kubectl ipam pool release %s deletes the one that is there",
			pool.Name, listed(differs), pool.Name), nil
	}
	return fmt.Sprintf("pool %s is there, and %s: correct the plan, or kubectl edit ippool %s",
		pool.Name, listed(differs), pool.Name), nil
}

// immutable reports whether a field of an existing pool cannot be changed.
func immutable(field string, there *ipamv1alpha1.IPPool) bool {
	switch field {
	case "spec.cidr", "spec.ipFamily", "spec.parentPoolRef", "spec.parentClassName", "spec.address", "spec.prefixLength":
		return true
	case "spec.addressDomain", "spec.slices":
		return meta.IsStatusConditionTrue(there.Status.Conditions, ipamv1alpha1.ConditionInUse)
	default:
		return false
	}
}

// differentClaim says what an existing claim holds instead; empty if the claim holds what the plan asks for, whatever
// the claim itself has asked for.
func differentClaim(claim, there *ipamv1alpha1.IPClaim) string {
	name := facts.Name(claim)
	if !there.DeletionTimestamp.IsZero() {
		return fmt.Sprintf("claim %s is being deleted: import the plan again when it is gone", name)
	}
	held, ok, err := ipamclient.AllocationOf(there)
	if err != nil || !ok {
		return fmt.Sprintf("claim %s is there, and holds no block: "+
			"kubectl ipam why %s says why, kubectl ipam claim release %s deletes it",
			name, facts.Args(claim), facts.Args(claim))
	}
	wanted, have := claim.Spec, there.Spec
	have.Address = held.Prefix.String()
	if block, err := plan.ParseBlock(wanted.Address); err == nil {
		wanted.Address = block.String()
	}
	have.ClassName, have.PoolRef, have.PoolSelector = held.ClassName, &held.Pool, nil
	have.PrefixLength, have.IPFamily, have.UnmetPolicy = wanted.PrefixLength, wanted.IPFamily, wanted.UnmetPolicy
	have.Number = wanted.Number // the address follows from the number
	if wanted.ClassName == "" {
		have.ClassName = ""
	}
	if wanted.PoolRef == nil || equality.Semantic.DeepEqual(wanted.PoolRef, there.Spec.PoolRef) {
		have.PoolRef = wanted.PoolRef // the status leaves out the claim's own workspace, while the spec may name it
	}
	if wanted.ReclaimPolicy == "" {
		have.ReclaimPolicy = ""
	}
	for _, spec := range []*ipamv1alpha1.IPClaimSpec{&wanted, &have} {
		if spec.Target == ipamv1alpha1.TargetBlock {
			spec.Target = "" // the default
		}
	}
	differs, err := ipamclient.Differences(wanted, have)
	if err != nil || len(differs) == 0 {
		return ""
	}
	return fmt.Sprintf("claim %s is there, and %s: correct the plan, or kubectl ipam claim release %s",
		name, listed(differs), facts.Args(claim))
}

func listed(differs []ipamclient.Difference) string {
	words := make([]string, len(differs))
	for i, d := range differs {
		words[i] = d.String()
	}
	return strings.Join(words, ", ")
}
