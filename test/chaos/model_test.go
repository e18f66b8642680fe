package chaos

import (
	"fmt"
	"math"
	"net/netip"
	"slices"

	"github.com/anishathalye/porcupine"

	"github.com/kcp-ipam/ipam/allocator/golden"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// These are states of a claim; the other states are the prefix of its block.
const (
	unbound   = "unbound"
	somewhere = "bound somewhere" // by a request whose answer was lost
)

// claimModel is a claim as it is seen from outside: it has one block or none. Binding it twice gives the same block,
// and a refusal says that it has none. A request with an unknown outcome may have taken effect at any time since, or
// never. A child pool counts as a claim, too: carving it binds it, and retiring it releases it.
var claimModel = porcupine.NondeterministicModel{
	Init: func() []any { return []any{unbound} },
	Step: func(state, input, _ any) []any {
		op, has := input.(operation), state.(string)
		return op.next(has)
	},
	DescribeOperation: func(input, _ any) string { return input.(operation).String() },
}

// next returns the states in which an operation may leave a claim; none if the claim could not answer so.
func (op operation) next(has string) []any {
	got := unbound
	if op.Prefix.IsValid() {
		got = op.Prefix.String()
	}
	frees := op.Do == "release" || op.Do == "retire" || op.Do == "close" ||
		(op.Do == "expire" || op.Do == "fail") && (op.Freed || op.Unknown != "")
	binds := op.Do == "bind" || op.Do == "carve" || op.Do == "hand over"
	switch {
	case frees && op.Unknown != "":
		return []any{has, unbound}
	case op.Refusal == poolInUse && has == unbound:
		return nil
	case op.Refusal == poolInUse:
		return []any{has}
	case frees:
		return []any{unbound}
	case op.Unknown != "" && has == unbound:
		return []any{unbound, somewhere}
	case op.Unknown != "":
		return []any{has}
	case binds && has == unbound, has == somewhere && got != unbound, has == got:
		return []any{got}
	}
	return nil
}

func (op operation) String() string {
	return fmt.Sprintf("%s %s in %s /%d %s by %d: %s %d %s%s",
		op.Do, op.Claim, op.Pool, op.Length, op.Exact, op.Allocator, op.Prefix, op.Revision, op.Refusal, op.Unknown)
}

// claimHistories returns the operations of each claim. It leaves out operations that say nothing: those that were
// turned away, and those that change nothing and have an unknown outcome.
func claimHistories(operations []operation) map[string][]porcupine.Operation {
	histories := map[string][]porcupine.Operation{}
	for _, op := range operations {
		if op.Do == "hand over" && (op.Moved || op.Unknown != "") { // the former claim no longer has the block, either
			former := op
			former.Do, former.Claim, former.outcome = "release", op.Former, outcome{Unknown: op.Unknown}
			operations = append(operations, former)
		}
	}
	for _, op := range operations {
		if op.Refusal == noPool { // it also says that the child does not exist
			child := op
			child.Do, child.Claim = "lookup", ledger.ClaimID(op.Pool)
			operations = append(operations, child)
		}
	}
	for _, op := range operations {
		changes := op.Do != "lookup" && op.Do != "retain"
		if op.Claim == "" || op.Refusal == busy || op.Refusal == changed || op.Unknown != "" && !changes {
			continue
		}
		end := op.Return
		if op.Unknown != "" {
			end = math.MaxInt64
		}
		histories["claim "+string(op.Claim)] = append(histories["claim "+string(op.Claim)],
			porcupine.Operation{ClientId: op.Allocator, Input: op, Call: op.Call, Return: end})
	}
	return histories
}

// room is the contents of a space after each of its steps. The state of its model is how many steps have happened.
type room struct {
	held     [][]netip.Prefix        // by the number of steps that have happened
	largest  map[ledger.PoolID][]int // likewise: the length of the largest free block, -1 if nothing is free
	excluded map[ledger.PoolID][]netip.Prefix
}

// newRoom goes through the steps of a space, in the slow and obvious way.
func newRoom(id ledger.SpaceID, steps []step) *room {
	r := &room{held: [][]netip.Prefix{nil}, largest: map[ledger.PoolID][]int{}, excluded: map[ledger.PoolID][]netip.Prefix{}}
	for _, s := range steps {
		held := slices.Clone(r.held[len(r.held)-1])
		if s.bound {
			held = append(held, s.prefix)
		} else if i := slices.Index(held, s.prefix); i >= 0 {
			held = slices.Delete(held, i, i+1)
		}
		r.held = append(r.held, held)
	}
	for _, w := range windows {
		if w.Space != id {
			continue
		}
		r.excluded[w.ID] = w.Excluded
		for _, held := range r.held {
			r.largest[w.ID] = append(r.largest[w.ID], largest(w, held))
		}
	}
	return r
}

func largest(w ledger.Pool, held []netip.Prefix) int {
	x := golden.New(w.CIDR)
	for _, p := range w.Excluded {
		x.Exclude(p)
	}
	for _, p := range held {
		x.Take(p)
	}
	best := -1
	for p := range x.FreeBlocks() {
		if best < 0 || p.Bits() < best {
			best = p.Bits()
		}
	}
	return best
}

// refuses reports whether a refusal is true after that many steps.
func (r *room) refuses(op operation, steps int) bool {
	if op.Refusal == exhausted {
		found := r.largest[op.Pool][steps]
		return found == op.Largest && (found < 0 || found > op.Length)
	}
	return slices.ContainsFunc(r.held[steps], op.Exact.Overlaps) || slices.ContainsFunc(r.excluded[op.Pool], op.Exact.Overlaps)
}

// model lets the steps happen in their order, and lets a refusal happen when it is true: an exhausted pool must
// really have been exhausted at some moment during the call.
func (r *room) model() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return 0 },
		Step: func(state, input, _ any) (bool, any) {
			steps := state.(int)
			if op, ok := input.(operation); ok {
				return r.refuses(op, steps), steps
			}
			return input.(int) == steps, steps + 1
		},
		DescribeOperation: func(input, _ any) string {
			if op, ok := input.(operation); ok {
				return op.String()
			}
			return fmt.Sprint("step ", input)
		},
	}
}

// roomHistory returns the steps of a space, and the operations that were refused there.
func roomHistory(id ledger.SpaceID, steps []step, operations []operation) []porcupine.Operation {
	var history []porcupine.Operation
	for i, s := range steps {
		history = append(history, porcupine.Operation{ClientId: len(windows), Input: i, Call: s.after, Return: s.until})
	}
	for _, op := range operations {
		if op.Refusal != exhausted && op.Refusal != inUse || spaceOf(op.Pool) != id {
			continue
		}
		history = append(history, porcupine.Operation{ClientId: op.Allocator, Input: op, Call: op.Call, Return: op.Return})
	}
	return history
}
