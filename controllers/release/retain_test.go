package release

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/test/gen"
)

func TestSettle_Retain(t *testing.T) {
	for _, tt := range []struct {
		name     string
		recorded ledger.ReclaimPolicy
		lastSeen ipamv1alpha1.ReclaimPolicy
		retained bool
	}{
		{"as recorded", ledger.Retain, "", true},
		{"as last seen", ledger.Delete, ipamv1alpha1.ReclaimRetain, true},
		{"no more, as last seen", ledger.Retain, ipamv1alpha1.ReclaimDelete, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newScene(t, gen.Allocation("c", "p", "10.0.0.0/28"))
			s.ledger.block.Policy = tt.recorded
			var told []ledger.PoolID
			s.retention.retained = func(pool ledger.PoolID) { told = append(told, pool) }
			s.Deleted(s.holder, gen.Claim("c", gen.Reclaim(tt.lastSeen)), nil)
			s.settle(t, live.Gone)
			if (len(told) > 0) != tt.retained {
				t.Errorf("the pools %v are told of a retained block; want any: %t", told, tt.retained)
			}
			record := s.record(t)
			if s.ledger.released == tt.retained || (record != nil) != tt.retained {
				t.Fatalf("released = %t, record = %v", s.ledger.released, record)
			}
			if !tt.retained {
				return
			}
			if name, uid := record.HeldBy(); record.Spec.ClaimRef != nil || name != "c" || uid != "uid-of-c" {
				t.Errorf("the retained record is %+v, held by %s/%s", record.Spec, name, uid)
			}
			if s.settle(t, live.Gone); s.ledger.released {
				t.Error("a retained block was freed while its record lives")
			}
			if err := s.workspace.Delete(t.Context(), record); err != nil {
				t.Fatal(err)
			}
			if s.settle(t, live.Gone); !s.ledger.released {
				t.Error("the block outlived its retained record")
			}
		})
	}
}

// The state of the block counts, whatever policy is recorded: the controller that had
// seen the last one may have been another.
func TestSettle_ARetainedBlockStaysWithItsRecord(t *testing.T) {
	record := gen.Allocation("c", "p", "10.0.0.0/28")
	record.Spec.ClaimRef = nil
	record.Annotations = map[string]string{ipamv1alpha1.AnnotationRetainedFrom: "c/uid-of-c"}
	s := newScene(t, record)
	s.ledger.block.State = ledger.Retained
	if s.settle(t, live.Gone); s.ledger.released || s.record(t) == nil {
		t.Errorf("released = %t, record = %v", s.ledger.released, s.record(t))
	}
}

// causes are why the tenures of the ledger's history have ended.
func (p *promiseScene) causes() (causes []ledger.Cause) {
	p.Helper()
	_, err := p.reader.Tenures(p.Context(), netip.Prefix{}, func(h ledger.Tenure, err error) bool {
		if err != nil {
			p.Fatal(err)
		}
		if h.Cause != "" {
			causes = append(causes, h.Cause)
		}
		return true
	})
	if err != nil {
		p.Fatal(err)
	}
	return causes
}

// The history says why a retained block was released.
func TestCause_OfALease(t *testing.T) {
	t.Parallel()
	p, _ := retainedFor(t, 10*time.Minute)
	p.clock.SetTime(p.block().Until)
	if !p.settles(holderOf(gen.Claim("c", gen.UID("a"))), live.Gone, nil) {
		t.Fatal("not settled")
	}
	if got := p.causes(); !slices.Equal(got, []ledger.Cause{ledger.CauseLeaseExpired}) {
		t.Errorf("the history has %v, want that the lease has expired", got)
	}
}

func TestCause_OfAWorkspaceThatLeft(t *testing.T) {
	s := newScene(t)
	s.Departed("w")
	s.settle(t, live.Unbound)
	s.clock.SetTime(s.clock.Now().Add(time.Second))
	if !s.settle(t, live.Unbound) || s.ledger.cause != ledger.CauseWorkspaceGone {
		t.Errorf("the block is freed because of %q, want %s", s.ledger.cause, ledger.CauseWorkspaceGone)
	}
}

func TestCause_OfAClaim(t *testing.T) {
	s := newScene(t, gen.Allocation("c", "p", "10.0.0.0/28"))
	if !s.settle(t, live.Gone) || s.ledger.cause != ledger.CauseReleased {
		t.Errorf("the block is freed because of %q, want %s", s.ledger.cause, ledger.CauseReleased)
	}
}
