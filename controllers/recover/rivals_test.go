package recover

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// aged returns an IPAllocation of pool p, created this many minutes after 03:00.
func aged(name, cidr string, minutes int) *ipamv1alpha1.IPAllocation {
	record := gen.Allocation(name, "p", cidr)
	record.CreationTimestamp = metav1.NewTime(time.Date(2026, 1, 2, 3, minutes, 0, 0, time.UTC))
	return record
}

// Of several IPAllocations with the same addresses, or parts of them, the oldest gets its block, in whichever order
// they are read. The other claims are requeued.
func TestPass_GivesTheBlockToTheOlderRecord(t *testing.T) {
	older, younger, inside := aged("older", "10.0.0.0/28", 1), aged("younger", "10.0.0.0/28", 2), aged("inside", "10.0.0.4/30", 3)
	for i, records := range [][]*ipamv1alpha1.IPAllocation{{older, younger, inside}, {younger, inside, older}, {inside, older, younger}} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			l := newLoss(t)
			pool := l.had(gen.Pool("p"), "10.0.0.0/16", "lost", 7)
			l.record.records = records
			l.wantLost("unknown to the ledger", pool)
			l.makesWhole(pool)
			l.wantBlocks(map[*ipamv1alpha1.IPAllocation]string{older: "10.0.0.0/28 bound"})
			slices.Sort(l.doubted)
			if got := slices.Compact(l.doubted); !slices.Equal(got, []ledger.ClaimID{"uid-of-inside", "uid-of-younger"}) {
				t.Errorf("doubted are %v; want the two claims that have lost", got)
			}
		})
	}
}

// The restored ledger has the block of a claim that was deleted since, and made again under the same name with the same
// address. The block passes to the later claim, whose IPAllocation shows it, and the pool is whole.
func TestPass_GivesTheBlockToTheLaterClaimOfTheName(t *testing.T) {
	for name, known := range map[string]bool{"a server shows the later claim": true, "none does": false} {
		t.Run(name, func(t *testing.T) {
			l := newLoss(t)
			pool := l.had(gen.Pool("p"), "10.0.0.0/16", l.ledger.Recovery().LedgerID(), 9)
			id := l.registers(pool, "10.0.0.0/16")
			l.ledger.Recovery().Trust(id)
			former := ledger.Holder{Claim: promise.NewID("platform", "default", "c"), Cluster: "platform", Namespace: "default", Name: "c"}
			must.Get(l.ledger.Bind(t.Context(), ledger.Request{Pool: id, Holder: former, Exact: netip.MustParsePrefix("10.0.0.0/28")}))(t)
			l.restart()
			l.wantLost("behind", pool)
			later := aged("c", "10.0.0.0/28", 1)
			l.record.records = []*ipamv1alpha1.IPAllocation{later}
			if known {
				l.record.claims = []*ipamv1alpha1.IPClaim{gen.Claim("c")}
			}
			if err := l.pass(t.Context()); (err == nil) != known {
				t.Errorf("pass: %v; want it to end well: %t", err, known)
			}
			b, held, err := l.ledger.Lookup(t.Context(), "uid-of-c")
			if err != nil || held != known || known && b.Prefix.String() != "10.0.0.0/28" {
				t.Errorf("the later claim has %+v, %t, %v; want the block: %t", b, held, err, known)
			}
		})
	}
}

// The ledger had a block before the loss, and the claim that has it shows it by an IPAllocation. The claim keeps the
// block, even if the IPAllocation of another claim for the same addresses is older.
func TestPass_PrefersTheLedgerToAnOlderRecord(t *testing.T) {
	l := newLoss(t)
	pool := l.had(gen.Pool("p"), "10.0.0.0/16", l.ledger.Recovery().LedgerID(), 9)
	id := l.registers(pool, "10.0.0.0/16")
	l.ledger.Recovery().Trust(id)
	holder := ledger.Holder{Claim: "uid-of-had", Cluster: "platform", Namespace: "default", Name: "had"}
	must.Get(l.ledger.Bind(t.Context(), ledger.Request{Pool: id, Holder: holder, Exact: netip.MustParsePrefix("10.0.0.0/28")}))(t)
	l.restart()
	l.wantLost("behind", pool)
	had, rival := aged("had", "10.0.0.0/28", 2), aged("rival", "10.0.0.0/28", 1)
	l.record.records = []*ipamv1alpha1.IPAllocation{rival, had}
	must.Do(t, l.pass(t.Context()))
	l.wantBlocks(map[*ipamv1alpha1.IPAllocation]string{had: "10.0.0.0/28 bound"})
	if !slices.Equal(l.doubted, []ledger.ClaimID{"uid-of-rival"}) || len(l.suspected) != 0 {
		t.Errorf("doubted are %v, and suspected %v; want the rival doubted alone", l.doubted, l.suspected)
	}
}
