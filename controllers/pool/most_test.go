package pool

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A workspace that has as many pools as it may gets no more, until one of them goes. The pools that it has, that show their
// CIDR, or that are the platform's or slices of it, are left alone.
func TestEnter_MorePoolsThanAWorkspaceMayHave(t *testing.T) {
	t.Parallel()
	first, servers := newEntered(t, ledger.Pool{})
	first.MaxPools = 1
	enter := func(uid types.UID, options ...gen.PoolOption) error {
		second := *first
		second.pool = gen.Pool("second", append(options, gen.CIDR("10.0.1.0/24"))...)
		second.pool.UID, second.id = uid, ledger.PoolID(uid)
		servers.answer.Object = second.pool
		return second.enter(t.Context())
	}
	refusal, refused := errors.AsType[*outcome.Refusal](enter("one"))
	if !refused || refusal.Reason != ipamv1alpha1.ReasonQuotaExceeded || servers.asked != 0 {
		t.Errorf("a second pool: %v, and a server was asked %d times; want %s, and none asked", refusal, servers.asked, ipamv1alpha1.ReasonQuotaExceeded)
	}
	if err := first.enter(t.Context()); err != nil {
		t.Errorf("the pool that is there: %v", err)
	}
	if err := first.Ledger.Pools.Retire(t.Context(), first.id); err != nil {
		t.Fatal(err)
	}
	if err := enter("two"); err != nil {
		t.Errorf("a pool after the first has gone: %v", err)
	}
	if got := first.Ledger.Pools.Count("w"); got != 1 {
		t.Errorf("the workspace has %d pools, want 1", got)
	}
	slice := gen.Pool("slice", gen.ChildOf("p", 28))
	slice.Labels = map[string]string{ipamv1alpha1.LabelSlice: "uid-of-p"}
	shows := gen.Pool("shows")
	shows.Status.AllocatedCIDR = "10.0.2.0/24"
	gives := first.Ledger
	gives.Slices = given{slice: &ledger.Slice{Pool: "uid-of-p", Cluster: "w", State: ledger.SliceGiven}}
	for name, pool := range map[string]*ipamv1alpha1.IPPool{"a slice": slice, "a pool that the ledger has lost": shows} {
		exempt := *first
		exempt.Reconciler, exempt.pool = &Reconciler{Options: Options{Ledger: gives, Directory: first.Directory, MaxPools: 1}}, pool
		if err := exempt.counted(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	first.owner = first.Directory.Platform()
	if err := enter("three"); err != nil {
		t.Errorf("a pool of the platform: %v", err)
	}
}
