package release

import (
	"context"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/test/gen"
)

// The record of a claim that is gone is gone when Released returns, and its block is free, whatever its policy. That of a claim that
// is there stays, and nothing is waited for.
func TestReleased(t *testing.T) {
	for name, tt := range map[string]struct {
		verdict live.Verdict
		policy  ledger.ReclaimPolicy
		gone    bool
	}{
		"gone":           {live.Gone, ledger.Delete, true},
		"gone, retained": {live.Gone, ledger.Retain, true},
		"there":          {live.Alive, ledger.Delete, false},
	} {
		record := gen.Allocation("c", "p", "10.0.0.0/28")
		s := newScene(t, record)
		s.ledger.block.Policy = tt.policy
		s.oracle.answer = live.Answer{Verdict: tt.verdict, Client: s.workspace}
		if gone, err := s.Released(t.Context(), "w", record); gone != tt.gone || err != nil {
			t.Errorf("%s: Released = %t, %v; want %t", name, gone, err, tt.gone)
		}
		if now := s.record(t); (now == nil) != tt.gone || s.ledger.released != tt.gone {
			t.Errorf("%s: the record is %+v, the block is released: %t; want both gone: %t", name, now, s.ledger.released, tt.gone)
		}
	}
}

// While no server can say whether the claim is gone, Released waits as long as it may, and takes nothing away.
func TestReleased_TakesNothingAwayInDoubt(t *testing.T) {
	record := gen.Allocation("c", "p", "10.0.0.0/28")
	s := newScene(t, record)
	s.oracle.answer = live.Answer{Verdict: live.Unknown, Client: s.workspace}
	ctx, cancel := context.WithTimeout(t.Context(), 3*glance)
	defer cancel()
	if gone, err := s.Released(ctx, "w", record); gone || err == nil || s.record(t) == nil || s.ledger.released {
		t.Errorf("Released = %t, %v; want an error, and record and block as they were", gone, err)
	}
}

// A record of that name that was made since is another one: the one that was to be deleted is gone.
func TestReleased_ALaterRecordOfTheNameIsAnotherOne(t *testing.T) {
	later := gen.Allocation("c", "p", "10.0.0.16/28", gen.UID("later"))
	later.Spec.ClaimRef.UID = "uid-of-later"
	s := newScene(t, later)
	s.ledger.released = true
	s.oracle.answer = live.Answer{Verdict: live.Gone, Client: s.workspace}
	former := gen.Allocation("c", "p", "10.0.0.0/28")
	if gone, err := s.Released(t.Context(), "w", former); !gone || err != nil || s.record(t) == nil {
		t.Errorf("Released = %t, %v, the later record is %v; want true, and it as it was", gone, err, s.record(t))
	}
}
