package allocator

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math/big"
	"sync"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
)

// allocationID returns an ID such as a CREATE is given. Different texts have different IDs.
func allocationID(of string) ledger.ClaimID {
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte(of)))
	return ledger.ClaimID(sum[:8] + "-" + sum[8:12] + "-8" + sum[12:15] + "-8" + sum[15:18] + "-" + sum[18:30])
}

// created returns a request of pool p by a claim that is being created.
func created(claim string, length int) ledger.Request {
	r := request("p", claim, length)
	r.Holder.Claim = allocationID(claim)
	return r
}

// failed frees the block of a CREATE that has failed.
func (l *fixture) failed(b ledger.Block) {
	l.t.Helper()
	must.Do(l.t, l.ReleaseFor(l.t.Context(), b, ledger.CauseCreateFailed))
}

// The block of a CREATE is bound at once. A repeated bind returns it, also by another Allocator, and the stored claim
// finds it under the same ID.
func TestBind_KeepsTheBlockOfACreate(t *testing.T) {
	l := withPool(t, "10.0.0.0/24")
	if id := allocationID("web"); !ledger.IsAllocationID(id) {
		t.Fatalf("%s is no allocation ID", id)
	}
	b := l.bind(created("web", 28))
	if b.State != ledger.Bound || b.Prefix != prefix("10.0.0.0/28") || !b.Until.IsZero() {
		t.Errorf("Bind = %+v, want 10.0.0.0/28, bound and without an end", b)
	}
	for range 2 {
		if again := l.bind(created("web", 27)); again != b {
			t.Errorf("Bind again = %+v, want %+v", again, b)
		}
		if found, ok, err := l.Lookup(t.Context(), b.Holder.Claim); err != nil || !ok || found != b {
			t.Errorf("Lookup = %+v, %t, %v; want %+v", found, ok, err, b)
		}
		l.holds(1)
		l.again()
	}
}

// Two CREATEs of one name have two IDs, and two blocks. The block of the failed CREATE is freed, and the other block
// stays.
func TestBind_GivesTwoCreatesTwoBlocks(t *testing.T) {
	l := withPool(t, "10.0.0.0/24")
	first := l.bind(created("web", 28))
	second := created("web", 28)
	second.Holder.Claim = allocationID("web once more")
	b := l.bind(second)
	if b.Prefix.Overlaps(first.Prefix) {
		t.Fatalf("two CREATEs were given %s and %s", first.Prefix, b.Prefix)
	}
	l.failed(b)
	l.wantBlocks(fmt.Sprint("10.0.0.0/28 ", first.Holder.Claim, " bound"))
	l.gets(request("p", "other", 28), b.Prefix.String())
}

// For a failed CREATE only its own block is freed, and only if it has not changed.
func TestReleaseFor_FreesOnlyTheBlockOfTheFailedCreate(t *testing.T) {
	l := withPool(t, "10.0.0.0/24")
	old := l.bind(created("web", 28))
	kept := l.bind(created("db", 28))
	must.Do(t, l.Retained().SetPolicy(t.Context(), old.Holder.Claim, ledger.Retain))
	must.Be(t, l.ReleaseFor(t.Context(), old, ledger.CauseCreateFailed), ledger.ErrChanged)
	now, _, err := l.Lookup(t.Context(), old.Holder.Claim)
	must.Do(t, err)
	l.failed(now)
	must.Be(t, l.ReleaseFor(t.Context(), now, ledger.CauseCreateFailed), ledger.ErrChanged)
	l.wantBlocks(fmt.Sprint("10.0.0.16/28 ", kept.Holder.Claim, " bound"))
}

// Of many CREATEs of a few names some fail, the claims of some are deleted, and the blocks of some pass to a UID. Each
// block ends with one claim or with none.
func TestBind_GivesABlockToOneClaimAtMostWhenCreatesRace(t *testing.T) {
	l := withPool(t, "10.0.0.0/20")
	var work sync.WaitGroup
	for i := range 60 {
		work.Go(func() {
			b, err := l.Bind(t.Context(), created(fmt.Sprint("c", i%8), 28))
			if err != nil {
				t.Errorf("Bind = %v", err)
				return
			}
			switch i % 4 {
			case 0:
				err = l.ReleaseFor(t.Context(), b, ledger.CauseCreateFailed)
			case 1:
				_, err = l.Retained().HandOver(t.Context(), b, successor(b.Holder.Name, fmt.Sprint("uid", i%8)))
			case 2:
				err = l.Release(t.Context(), b.Holder.Claim)
			}
			if err != nil && !errors.Is(err, ledger.ErrChanged) {
				t.Errorf("call %d: %v", i, err)
			}
		})
	}
	work.Wait()
	l.sameAsLedger()
}

// Preview returns the block that the next bind gets, and takes nothing.
func TestPreview_ReturnsWhatTheNextBindGets(t *testing.T) {
	l := withPool(t, "10.0.0.0/28")
	for range 2 {
		if p, err := l.Preview(t.Context(), created("web", 29)); err != nil || p != prefix("10.0.0.0/29") {
			t.Errorf("Preview = %s, %v, want 10.0.0.0/29", p, err)
		}
	}
	failsAs[*ledger.ExhaustedError](l.Preview(t.Context(), created("web", 20)))(t)
	must.Fail(l.Preview(t.Context(), ledger.Request{Pool: "p"}))(t, ledger.ErrInvalid)
	must.Fail(l.Preview(t.Context(), request("unknown", "web", 28)))(t, ledger.ErrUnknownPool)
	l.holds(0)
	l.gets(created("web", 29), "10.0.0.0/29")
	l.gets(request("p", "other", 29), must.Get(l.Preview(t.Context(), request("p", "other", 29)))(t).String())
	l.sameAsLedger()
}

// The block of a CREATE counts for the limits of its workspace, also when it has passed to another ID. When the CREATE
// has failed, the block does not count any more.
func TestQuota_CountsTheBlockOfACreate(t *testing.T) {
	l := withPool(t, "10.0.0.0/24")
	limited := func(claim string) ledger.Request {
		r := created(claim, 28)
		r.Class, r.Limits = "standard", ledger.Limits{Class: big.NewInt(16)}
		return r
	}
	b := l.bind(limited("first"))
	failsAs[*ledger.QuotaError](l.Bind(t.Context(), limited("second")))(t)
	b = must.Get(l.Retained().HandOver(t.Context(), b, successor("first", "uid")))(t)
	failsAs[*ledger.QuotaError](l.Bind(t.Context(), limited("second")))(t)
	l.failed(b)
	l.gets(limited("second"), "10.0.0.0/28")
}
