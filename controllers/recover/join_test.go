package recover

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/gen"
)

// differences has a line for each thing that the ledger may have for a holder. The columns are objects: a claim that
// shows nothing; a claim that shows a block; an IPAllocation of the block, with its claim; a retained IPAllocation; a
// claim that shows the block as its range. A "+" says that the object is published and the ledger lacks its block or
// range, so that the Adopter adopts it. The letter is the Verifier's finding: C for a claim and R for an IPAllocation
// if the ledger has nothing for it, c and r if the ledger has something else, and a dot for no finding.
const differences = `
nothing           . +C +R +R +C
cooling           . +C +R +R +C
unreadable        . +. +. +. +C
without its key   c +. +. +r +C
bound             c  .  .  r +C
bound elsewhere   c +c +r +r +C
of another name   c  c  r  r +C
retained          c  c  r  . +C
the range         . +C +R +R  .
a drained range   . +C +R +R +.
another range     . +C +R +R +c
`

// kept has the content of the ledger for each line of the table.
var kept = []struct {
	name  string
	enter func(*books)
}{
	{"nothing", func(*books) {}},
	{"cooling", func(b *books) { b.keep(bound("a", 0, ledger.Cooling)) }},
	{"unreadable", func(b *books) {
		b.addUnread("uid-of-p", nth(0))
		b.addClaim("uid-of-a", "uid-of-p", nth(0))
	}},
	{"without its key", func(b *books) { b.addBlock(bound("a", 0, ledger.Bound)) }},
	{"bound", func(b *books) { b.keep(bound("a", 0, ledger.Bound)) }},
	{"bound elsewhere", func(b *books) { b.keep(bound("a", 1, ledger.Bound)) }},
	{"of another name", func(b *books) {
		held := bound("a", 0, ledger.Bound)
		held.Holder.Name = "b"
		b.keep(held)
	}},
	{"retained", func(b *books) { b.keep(bound("a", 0, ledger.Retained)) }},
	{"the range", func(b *books) { b.addPool(network("a", 0, ledger.PoolOpen)) }},
	{"a drained range", func(b *books) { b.addPool(network("a", 0, ledger.PoolDraining)) }},
	{"another range", func(b *books) { b.addPool(network("a", 1, ledger.PoolOpen)) }},
}

// TestRecord_FindsEveryDifference compares lacks and differs with the table, for each ledger and object.
func TestRecord_FindsEveryDifference(t *testing.T) {
	t.Parallel()
	objects := []client.Object{gen.Claim("a"), showing("a", 0), gen.Allocation("a", "p", nth(0).String()), unclaimed("a", 0), showing("a", 0, gen.ForRange())}
	var got strings.Builder
	for _, line := range kept {
		b := opened()
		line.enter(b)
		b.close()
		fmt.Fprintf(&got, "\n%-16s", line.name)
		for _, object := range objects {
			r := b.join(readRecord("w", object))
			fmt.Fprintf(&got, " %s%s", map[bool]string{true: "+", false: " "}[r.published() && r.lacks()], map[Kind]string{
				"": ".", ClaimWithoutBlock: "C", ClaimMismatch: "c", RecordWithoutBlock: "R", RecordMismatch: "r",
			}[r.differs().Kind])
		}
	}
	if diff := cmp.Diff(differences, got.String()+"\n"); diff != "" {
		t.Errorf("differences (-want +got):\n%s", diff)
	}
}

// opened returns books with pool p of 10.0.0.0/16.
func opened() *books {
	b := newBooks(time.Unix(1_800_000_000, 0))
	b.space("uid-of-p").head = true
	b.addPool(ledger.Pool{ID: "uid-of-p", Cluster: "w", Name: "p", Space: "uid-of-p", CIDR: netip.MustParsePrefix("10.0.0.0/16"), State: ledger.PoolOpen})
	return b
}

// keep adds a block to the books, and then the key of its claim. No other block may be added after that.
func (b *books) keep(held ledger.Block) {
	b.addBlock(held)
	b.addClaim(held.Holder.Claim, held.Space, held.Prefix)
}

// nth returns the i-th block of the pool p.
func nth(i int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 4), byte(i << 4)}), 28)
}

// bound returns the i-th block of the pool p, held by a claim, in this state.
func bound(claim string, i int, state ledger.BlockState) ledger.Block {
	return ledger.Block{
		Prefix: nth(i), Space: "uid-of-p", Pool: "uid-of-p", State: state, Policy: ledger.Delete,
		Holder: ledger.Holder{Claim: ledger.ClaimID("uid-of-" + claim), Cluster: "w", Namespace: "default", Name: claim},
	}
}

// network returns a derived pool that a claim holds. It is carved from p, as the i-th block.
func network(claim string, i int, state ledger.PoolState) ledger.Pool {
	d := &ledger.Derived{Class: "net", Workspace: "w", Scope: ledger.Scope{"network": {Kind: "Network", Name: claim}}}
	d.Holder = bound(claim, i, ledger.Bound).Holder
	return ledger.Pool{ID: d.ID(), Cluster: "w", Name: "net-" + claim, Space: ledger.SpaceID(d.ID()), CIDR: nth(i), Parent: "uid-of-p", State: state, Derived: d}
}

// showing returns a claim that shows the i-th block of the pool p.
func showing(name string, i int, options ...gen.ClaimOption) *ipamv1alpha1.IPClaim {
	claim := gen.Claim(name, options...)
	claim.Status = ipamv1alpha1.IPClaimStatus{Phase: ipamv1alpha1.ClaimBound, PoolRef: &ipamv1alpha1.PoolRef{Name: "p"}, AllocatedCIDR: nth(i).String()}
	return claim
}

// unclaimed returns the IPAllocation of a block that was retained.
func unclaimed(name string, i int) *ipamv1alpha1.IPAllocation {
	record := gen.Allocation(name, "p", nth(i).String(), gen.Retained())
	record.Annotations = map[string]string{ipamv1alpha1.AnnotationRetainedFrom: name + "/uid-of-" + name}
	return record
}
