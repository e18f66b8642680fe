package verify

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/test/gen"
)

// later is a clock that is ahead.
type later struct {
	clock.RealClock
	by time.Duration
}

func (l later) Now() time.Time { return time.Now().Add(l.by) }

// A block that is reserved lacks a claim and a record for a while, and a claim that shows it a
// block of its own. When nobody confirms it for long, that is a finding.
func TestVerify_Reservations(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		shows   string        // what the claim shows; empty: there is none
		age     time.Duration // of the last answer
		renewed time.Duration // how long before that the first one was
		want    []Kind
		message string
	}{
		{"reserved", "", time.Second, 0, nil, ""},
		{"reserved, and shown", "10.0.2.0/28", time.Second, 0, nil, ""},
		{"reserved, and the claim shows something else", "10.0.3.0/28", time.Second, 0, []Kind{ClaimWithoutBlock}, ""},
		{"never created", "", overdue, 0, []Kind{BlockWithoutClaim}, "was not created"},
		{"never created, again and again", "", time.Second, overdue, []Kind{BlockWithoutClaim}, "was not created"},
		{"never confirmed", "10.0.2.0/28", overdue, 0, []Kind{BlockWithoutClaim}, "shows the block"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			claim := gen.Claim("new")
			r := request("new", "10.0.2.0/28")
			r.Holder.Claim = promise.Of("w", claim)
			_, err := s.ledger.Reservations().Reserve(t.Context(), r)
			s.must(err)
			s.show("root", "10.0.0.0/16", "65536", "560", "64976")
			if tt.shows != "" {
				claim.Status = ipamv1alpha1.IPClaimStatus{Phase: ipamv1alpha1.ClaimBound, AllocatedCIDR: tt.shows}
				s.claims["new"] = claim
			}
			s.Clock, s.renewed = later{by: tt.age}, tt.renewed
			kinds, findings := s.verify()
			if !slices.Equal(kinds, tt.want) {
				t.Fatalf("found %v, want %v", findings, tt.want)
			}
			for _, f := range findings {
				if f.Kind == BlockWithoutClaim && (f.Repair != ConfirmRelease || ledger.ClaimID(f.UID) != r.Holder.Claim || !strings.Contains(f.Message, tt.message)) {
					t.Errorf("the finding is %+v, want one that says %q, with repair %s", f, tt.message, ConfirmRelease)
				}
			}
		})
	}
}

// A block that two CREATEs were answered with stays for a while after the claim that got it is
// deleted.
func TestVerify_BlockOfTwoAnswers(t *testing.T) {
	t.Parallel()
	for age, want := range map[time.Duration][]Kind{time.Second: nil, overdue: {BlockWithoutClaim}} {
		s := newScene(t)
		r := request("new", "10.0.2.0/28")
		r.Holder.Claim = promise.Of("w", gen.Claim("new"))
		for range 2 {
			_, err := s.ledger.Reservations().Reserve(t.Context(), r)
			s.must(err)
		}
		_, ok, err := s.ledger.Reservations().Confirm(t.Context(), allocator.Confirmation{
			Reservation: r.Holder.Claim, Claim: "uid-of-new", Prefix: r.Exact, Policy: ledger.Delete, Certain: true,
		})
		s.must(err)
		if !ok {
			t.Fatal("the reservation is not confirmed")
		}
		s.show("root", "10.0.0.0/16", "65536", "560", "64976")
		s.Clock = later{by: age}
		if kinds, findings := s.verify(); !slices.Equal(kinds, want) {
			t.Errorf("after %s found %v, want %v", age, findings, want)
		}
	}
}
