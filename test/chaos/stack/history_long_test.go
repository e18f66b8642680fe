//go:build long

package stack

import (
	"context"
	"testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/chaos/history"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/must"
)

// follow begins a history that ends with the test.
func follow(t *testing.T) *history.History {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	h := must.Get(history.Follow(ctx, framework.Store(t)))(t)
	t.Cleanup(h.Close)
	return h
}

// upTo waits until the history knows that a claim was bound.
func (s *site) upTo(claim *ipamv1alpha1.IPClaim) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	if _, err := s.history.Given(ctx, claim.UID); err != nil {
		s.Fatalf("the history ends before claim %s is bound: %v", claim.Name, err)
	}
}

// upToReuse waits until an address was given again. On a busy machine, that takes longer than the faults last.
func (s *site) upToReuse() {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	if err := s.history.Reused(ctx); err != nil {
		s.Fatalf("the history ends before an address is given twice in a row: %v", err)
	}
}

// report fails the test for each problem, and logs how many claims were bound.
func (s *site) report() {
	s.Helper()
	for _, problem := range s.history.Problems() {
		s.Error(problem)
	}
	given, reused, _ := s.history.Counts()
	s.Logf("%d claims were bound, %d of them to addresses of former ones", given, reused)
	if reused == 0 {
		s.Error("no address was given twice in a row: the run has proven little")
	}
}
