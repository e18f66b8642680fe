package release

import (
	"context"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// deletedWithRecord makes a scene whose claim was seen deleted, with its record as the server has it. The server of the
// workspace lacks the claim. To every other question the verdict is Unknown.
func deletedWithRecord(t *testing.T) *scene {
	t.Helper()
	s := newScene(t, gen.Allocation("c", "p", "10.0.0.0/28"))
	s.oracle.lacks, s.oracle.answer = s.workspace, live.Answer{Verdict: live.Unknown}
	s.Deleted(s.holder, gen.Claim("c"), s.record(t))
	return s
}

// Two requests suffice to free the block: a read, to which the server says that it lacks the claim, and the deletion of
// the claim's record exactly as it was seen. The holder is not asked for.
func TestSettle_TakesTheRecordAsWitness(t *testing.T) {
	s := deletedWithRecord(t)
	settled, err := s.Settle(t.Context(), s.holder)
	if err != nil || !settled || !s.ledger.released || s.record(t) != nil {
		t.Errorf("settled = %t, error = %v, released = %t, record = %v; want the block and its record gone",
			settled, err, s.ledger.released, s.record(t))
	}
	if s.oracle.times != 0 {
		t.Errorf("the holder was asked for %d times more, want 0", s.oracle.times)
	}
}

// Without a record that proves that the claim is gone, Settle asks the servers for the holder once, as for any other
// hint. They do not know, so nothing is freed.
func TestSettle_AsksTheServersIfThereIsNoWitness(t *testing.T) {
	for name, change := range map[string]func(*testing.T, *scene){
		"the claim is there": func(_ *testing.T, s *scene) { s.oracle.lacks = nil },
		"the server has no such record": func(t *testing.T, s *scene) {
			s.oracle.lacks = newScene(t).workspace
		},
		"the record has changed since": func(t *testing.T, s *scene) {
			changed := s.record(t)
			changed.Labels = map[string]string{"changed": "since"}
			must.Do(t, s.workspace.Update(t.Context(), changed))
		},
		"the record is another of its name": func(t *testing.T, s *scene) {
			must.Do(t, s.workspace.Delete(t.Context(), s.record(t)))
			must.Do(t, s.workspace.Create(t.Context(), gen.Allocation("c", "p", "10.0.0.0/28", gen.UID("another"))))
		},
		"no record was seen": func(_ *testing.T, s *scene) { s.Deleted(s.holder, gen.Claim("c"), nil) },
		"the claim was missed": func(_ *testing.T, s *scene) {
			s.forget(s.holder.Claim, s.seen(s.holder.Claim).number)
			s.Missed(s.holder, gen.Claim("c"))
		},
		"the block is retained": func(_ *testing.T, s *scene) { s.ledger.block.State = ledger.Retained },
		"it is to be retained":  func(_ *testing.T, s *scene) { s.ledger.block.Policy = ledger.Retain },
	} {
		t.Run(name, func(t *testing.T) {
			s := deletedWithRecord(t)
			change(t, s)
			settled, err := s.Settle(t.Context(), s.holder)
			if err != nil || settled || s.ledger.released {
				t.Errorf("settled = %t, error = %v, released = %t; want another look", settled, err, s.ledger.released)
			}
			if s.oracle.times != 1 {
				t.Errorf("the holder was asked for %d times, want 1", s.oracle.times)
			}
		})
	}
}

// A block that changes after its record was deleted is freed by the next attempt, which has no record as witness.
func TestSettle_FreesABlockAfterItsWitnessIsGone(t *testing.T) {
	s := deletedWithRecord(t)
	s.oracle.looked = func() { s.ledger.block.Revision++ }
	if settled, err := s.Settle(t.Context(), s.holder); err != nil || settled || s.ledger.released {
		t.Fatalf("settled = %t, error = %v, released = %t; want another look", settled, err, s.ledger.released)
	}
	s.oracle.looked = nil
	if !s.settle(t, live.Gone) || !s.ledger.released {
		t.Error("not freed at the next look")
	}
}

func TestArrived_EndsTheAbsence(t *testing.T) {
	s := newScene(t)
	s.settle(t, live.Unbound)
	s.Arrived("w")
	s.clock.SetTime(s.clock.Now().Add(time.Minute))
	if s.settle(t, live.Unbound) || s.ledger.released {
		t.Error("freed at the first look after the workspace was bound again")
	}
}

// A shard may be started again more than once. If a server shows the claim between two censuses, its workspace is
// bound, and the first census no longer counts. An answer to a read that began before the first census changes nothing.
func TestServed_EndsTheAbsence(t *testing.T) {
	s := newScene(t)
	s.settle(t, live.Unbound)
	s.clock.SetTime(s.clock.Now().Add(time.Second))
	s.settle(t, live.Alive)
	s.clock.SetTime(s.clock.Now().Add(time.Hour))
	if s.settle(t, live.Unbound) || s.ledger.released {
		t.Error("freed at the first look after a server has shown the claim")
	}
	s.served(s.holder.Cluster, s.clock.Now().Add(-time.Second)) // by a read that began before the census
	s.clock.SetTime(s.clock.Now().Add(time.Minute))
	if !s.settle(t, live.Unbound) || !s.ledger.released {
		t.Error("not freed at the second look after that")
	}
}

// A request frees a block if the deletion of its claim was seen, if the IPAllocation is still there, or if the binding
// of the workspace was seen to go. A restored kcp may never have known any other claim that it lacks. GoneWitnessed
// foresees the result, and changes nothing.
func TestSettleWitnessed_FreesOnlyBlocksOfKnownClaims(t *testing.T) {
	record := gen.Allocation("c", "p", "10.0.0.0/28")
	for name, tt := range map[string]struct {
		record        bool
		seen          func(*scene)
		verdict       live.Verdict
		settled, free bool
	}{
		"never seen":                  {verdict: live.Gone},
		"never seen, with its record": {verdict: live.Gone, record: true, settled: true, free: true},
		"seen being deleted": {
			verdict: live.Gone, settled: true, free: true,
			seen: func(s *scene) { s.Deleted(s.holder, gen.Claim("c"), nil) },
		},
		"left out by a list": {verdict: live.Gone, seen: func(s *scene) { s.Missed(s.holder, gen.Claim("c")) }},
		"left out by a list, and its hint is settled": {verdict: live.Gone, seen: func(s *scene) {
			s.Missed(s.holder, gen.Claim("c"))
			s.oracle.answer = live.Answer{Verdict: live.Gone, Client: s.workspace}
			must.Get(s.Reconcile(t.Context(), s.holder))(t)
		}},
		"there":   {verdict: live.Alive, settled: true},
		"unbound": {verdict: live.Unbound},
		"unbound, and its binding was seen to go": {verdict: live.Unbound, settled: true, free: true, seen: func(s *scene) { s.Departed("w") }},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			if tt.record {
				s = newScene(t, record.DeepCopy())
			}
			if tt.seen != nil {
				tt.seen(s)
			}
			settled := false
			for range 3 {
				s.oracle.answer = live.Answer{Verdict: tt.verdict, Client: s.workspace}
				if s.ledger.released {
					break
				}
				if gone := must.Get(s.GoneWitnessed(t.Context(), s.holder))(t); gone != (tt.free && tt.verdict == live.Gone) || s.ledger.released {
					t.Errorf("GoneWitnessed = %t, and has freed the block: %t; want what SettleWitnessed does, and nothing freed", gone, s.ledger.released)
				}
				settled = must.Get(s.SettleWitnessed(t.Context(), s.holder))(t)
				s.clock.SetTime(s.clock.Now().Add(time.Minute))
			}
			if settled != tt.settled || s.ledger.released != tt.free {
				t.Errorf("settled = %t, freed = %t; want %t, %t", settled, s.ledger.released, tt.settled, tt.free)
			}
		})
	}
}

// A request ends the hold of a range only if the deletion of its claim was seen, and drains a pool only if the deletion
// of its IPPool was seen: neither has an IPAllocation.
func TestSettleWitnessed_NeedsTheDeletionOfARangeOrPool(t *testing.T) {
	for _, seen := range []bool{false, true} {
		s, ranges := rangeScene(t, "uid-of-c")
		p := rootScene(t)
		if seen {
			s.Deleted(s.holder, gen.Claim("c"), nil)
			p.PoolDeleted(p.holder, gen.Pool("pool"))
		}
		for _, of := range []*scene{s, p} {
			of.oracle.answer = live.Answer{Verdict: live.Gone, Client: of.workspace}
			if gone := must.Get(of.GoneWitnessed(t.Context(), of.holder))(t); gone != seen {
				t.Errorf("deletion of %s seen: %t; GoneWitnessed = %t", of.holder.Name, seen, gone)
			}
			if settled := must.Get(of.SettleWitnessed(t.Context(), of.holder))(t); settled != seen {
				t.Errorf("deletion of %s seen: %t; settled = %t", of.holder.Name, seen, settled)
			}
		}
		if ranges.dropped != seen || p.drained() != seen {
			t.Errorf("deletion seen: %t; the hold has ended: %t, the pool drains: %t", seen, ranges.dropped, p.drained())
		}
	}
}

// The ledger is an older copy that lacks the block, and its claim is deleted before recovery has given the block back.
// The record stays, as recovery needs it. A ledger that has lost nothing is right about the block: the record goes.
func TestSettle_KeepsTheRecordOfABlockThatTheLedgerMayHaveLost(t *testing.T) {
	for _, lost := range []bool{true, false} {
		s := newScene(t, gen.Allocation("c", "p", "10.0.0.0/28"))
		s.HasAll = func(_ context.Context, in ledger.ClusterName, record client.Object) (bool, error) {
			if in != "w" || record.GetUID() != s.record(t).UID {
				t.Errorf("asked for %s of %s, want the record of the claim", record.GetName(), in)
			}
			return !lost, nil
		}
		s.ledger.released = true
		last := gen.Claim("c")
		last.Status.AllocatedCIDR = "10.0.0.0/28"
		s.Deleted(s.holder, last, nil)
		s.oracle.answer = live.Answer{Verdict: live.Gone, Client: s.workspace}
		if settled, err := s.Settle(t.Context(), s.holder); settled == lost || err != nil || (s.record(t) != nil) != lost {
			t.Errorf("lost: %t; settled = %t, %v, the record is %v", lost, settled, err, s.record(t))
		}
	}
}

// The ledger lacks the block of a claim that is gone. Recovery gives the block back while a release asks whether the
// ledger has lost anything. The record stays: by that record the next attempt retains or frees the block.
func TestSettle_KeepsTheRecordOfABlockThatComesBackMeanwhile(t *testing.T) {
	s := newScene(t, gen.Allocation("c", "p", "10.0.0.0/28"))
	s.HasAll = func(context.Context, ledger.ClusterName, client.Object) (bool, error) {
		s.ledger.released = false
		return true, nil
	}
	s.ledger.released = true
	last := gen.Claim("c")
	last.Status.AllocatedCIDR = "10.0.0.0/28"
	s.Deleted(s.holder, last, nil)
	s.oracle.answer = live.Answer{Verdict: live.Gone, Client: s.workspace}
	if settled, err := s.Settle(t.Context(), s.holder); settled || err != nil || s.record(t) == nil {
		t.Errorf("settled = %t, %v, the record is %v; want the hint settled again, with the record", settled, err, s.record(t))
	}
}
