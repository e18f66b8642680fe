package derived

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/controllers/internal/views"
	"github.com/kcp-ipam/ipam/controllers/release"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// A range with claims inside is not closed. The refusal names at most three claims of the workspace, and counts its
// others. Of other workspaces it says neither names nor numbers.
func TestCloseRange_RefusesARangeInUse(t *testing.T) {
	s := newScene(t)
	claim, p := s.ranged("net", "a", "root", 24)
	inner, below := s.ranged("sub", "a", p.ID, 28)
	for _, name := range []string{"a", "b", "c", "d"} {
		s.bind(below, name)
	}
	must.Get(s.alloc.Bind(t.Context(), ledger.Request{Pool: below.ID, Length: 32, Holder: ledger.Holder{Claim: "foreign", Cluster: "v", Namespace: "n", Name: "secret"}}))(t)
	for _, dry := range []bool{true, false} {
		inside := s.closes(claim, dry)
		for _, want := range []string{"release everything allocated inside this range first", p.CIDR.String(), "5 allocations", "claim default/a, claim default/b, claim default/c and 2 others, and by other workspaces"} {
			if !strings.Contains(inside, want) {
				t.Errorf("dry run %t: the refusal is %q; want it to say %q", dry, inside, want)
			}
		}
		if strings.Contains(inside, "secret") {
			t.Errorf("the refusal names a claim of another workspace: %q", inside)
		}
		for n := range 2 { // the blocks of others are not counted
			must.Get(s.alloc.Bind(t.Context(), ledger.Request{Pool: below.ID, Length: 32, Holder: ledger.Holder{Claim: ledger.ClaimID(fmt.Sprintf("foreign-%t-%d", dry, n)), Cluster: "v", Namespace: "n", Name: "more"}}))(t)
			if again := s.closes(claim, dry); again != inside {
				t.Errorf("with another block of another workspace the refusal is %q; want %q as before", again, inside)
			}
		}
	}
	s.wantOpen(p)
	if inside := s.closes(inner, false); !strings.Contains(inside, "4 allocations") {
		t.Errorf("the inner range is refused by %q, want its 4 allocations", inside)
	}
}

// While no server can tell whether the claims inside a range exist, CloseRange tries until its context ends. It fails
// with the names of these claims, and the range stays open. It asks the servers at growing intervals, because a user
// may send many DELETEs.
func TestCloseRange_FailsWhileNobodyCanTellWhoIsInside(t *testing.T) {
	s := newScene(t)
	claim, p := s.ranged("net", "a", "root", 24)
	s.bind(p, "gone")
	s.away = true
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	inside, err := s.CloseRange(ctx, tenant, claim, false)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(inside, "again later (1 allocation, of claim default/gone)") {
		t.Errorf("CloseRange = %q, %v; want an error that names the claims which may be inside", inside, err)
	}
	if asked := s.asked.Load(); asked > 6 {
		t.Errorf("the servers were asked %d times; want 6 at most", asked)
	}
	s.wantOpen(p)
}

// A kcp that was restored from a backup knows none of the claims inside, but their machines run. However often the
// range is deleted, no block inside it is freed, and the range stays open. A dry run refuses, too.
func TestCloseRange_FreesNothingOfARestoredKCP(t *testing.T) {
	for _, blocks := range []int{3, 150} {
		t.Run(fmt.Sprint(blocks), func(t *testing.T) { freesNothing(t, blocks) })
	}
}

func freesNothing(t *testing.T, blocks int) {
	t.Helper()
	s := newScene(t)
	claim, p := s.ranged("net", "a", "root", 24)
	for n := range blocks {
		by := ledger.Holder{Claim: ledger.ClaimID(fmt.Sprintf("lost-%d", n)), Cluster: tenant, Namespace: "default", Name: fmt.Sprintf("lost-%d", n)}
		must.Get(s.alloc.Bind(t.Context(), ledger.Request{Pool: p.ID, Length: 32, Holder: by}))(t)
	}
	s.Releases = must.Get(release.New(unmanaged{}, release.Options{
		HasAll: func(context.Context, ledger.ClusterName, client.Object) (bool, error) { return true, nil },
		Ledger: views.Of(s.alloc), Ranges: s.alloc.Derived(), Oracle: s, Clock: s.clock, RetireClosed: s.RetireClosed,
		Bound:    func(ledger.ClusterName) bool { return true },
		Lease:    func(context.Context, ledger.Block) (time.Duration, error) { return 0, nil },
		Reclaims: s.Catalog.Reclaims,
	}))(t)
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		inside, err := s.CloseRange(ctx, tenant, claim, false)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(inside, "nobody can tell now") {
			t.Errorf("CloseRange = %q, %v; want that nobody can tell", inside, err)
		}
	}
	if inside := s.closes(claim, true); !strings.Contains(inside, "is in use") {
		t.Errorf("a dry run of the DELETE says %q; want that the range is in use", inside)
	}
	if left := must.Get(s.inside(t.Context(), p))(t); len(left) != blocks {
		t.Errorf("%d blocks are left of %d", len(left), blocks)
	}
	s.wantOpen(p)
}

// One DELETE asks the servers for a bounded number of claims inside, over all workspaces. It asks for the claims of its
// own workspace first. If one of them exists, the DELETE is refused.
func TestCloseRange_AsksForFewClaims(t *testing.T) {
	s := newScene(t)
	claim, p := s.ranged("net", "a", "root", 24)
	for n := range 2 * looked {
		s.guest(p, fmt.Sprint("guest-", n))
	}
	s.away = true
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if inside, err := s.CloseRange(ctx, tenant, claim, false); err == nil {
		t.Errorf("CloseRange = %q without an error while nobody can tell", inside)
	}
	if asked := s.asked.Swap(0); asked > looked {
		t.Errorf("one DELETE has asked for %d claims, want %d at most", asked, looked)
	}
	s.away = false
	own := s.bind(p, "own")
	for _, dry := range []bool{true, false} {
		if inside := s.closes(claim, dry); !strings.Contains(inside, own.Name) {
			t.Errorf("the refusal is %q, want the claim %s", inside, own.Name)
		}
		if asked, want := s.asked.Swap(0), map[bool]int32{true: 1, false: atOnce}[dry]; asked > want {
			t.Errorf("dry run %t: %d claims were asked for, want %d at most", dry, asked, want)
		}
	}
}

// reads counts the lists of blocks that are read from the ledger.
type reads struct {
	views.Blocks
	lists *atomic.Int32
}

func (r reads) List(ctx context.Context, o allocator.ListOptions) iter.Seq2[ledger.Block, error] {
	r.lists.Add(1)
	return r.Blocks.List(ctx, o)
}

// A dry run, which a user may send in a loop, lists the blocks of a pool only if the pool has a block.
func TestCloseRange_ReadsNoIdlePools(t *testing.T) {
	s := newScene(t)
	lists := &atomic.Int32{}
	s.Ledger.Blocks = reads{s.Ledger.Blocks, lists}
	claim, p := s.ranged("net", "a", "root", 24)
	var below ledger.Pool
	for n := range 8 {
		below = s.network("sub", fmt.Sprint(n), p.ID, 28)
	}
	if inside := s.closes(claim, true); inside != "" || lists.Swap(0) > 0 {
		t.Errorf("the dry run says %q, and has read idle pools", inside)
	}
	s.bind(below, "c")
	if inside := s.closes(claim, true); inside == "" || lists.Load() != 1 {
		t.Errorf("the dry run says %q, and has read %d pools; want 1", inside, lists.Load())
	}
}

// A range is not closed while a claim holds another range inside it, even if that range is empty.
func TestCloseRange_CountsAnEmptyRangeInside(t *testing.T) {
	s := newScene(t)
	claim, p := s.ranged("net", "a", "root", 24)
	inner, below := s.ranged("sub", "a", p.ID, 28)
	if inside := s.closes(claim, false); !strings.Contains(inside, "1 allocation, of range claim default/range-sub") {
		t.Errorf("the refusal is %q, want the inner range", inside)
	}
	s.mustClose(inner)
	s.deletes(inner) // and its release is not settled yet
	if s.mustClose(claim); s.known(below) {
		t.Error("the inner pool is known; want both gone")
	}
}

// The block of a claim that nobody has seen keeps the range while the claim's CREATE may succeed. The refusal says
// until when. For a claim that was seen, the refusal gives no time. Once the CREATE can no longer succeed, a block
// without its claim keeps nothing.
func TestCloseRange_SaysUntilWhenACreateMaySucceed(t *testing.T) {
	s := newScene(t)
	claim, p := s.ranged("net", "a", "root", 24)
	s.Answers = promise.NewAnswers(s.clock, func(ledger.Holder) {})
	answer := func(name string) ledger.Block {
		h := ledger.Holder{Claim: promise.NewID(tenant, "default", name), Cluster: tenant, Namespace: "default", Name: name}
		must.Do(t, s.Answers.Begin(h))
		return must.Get(s.alloc.Bind(t.Context(), ledger.Request{Pool: p.ID, Length: 32, Holder: h}))(t)
	}
	refuses := func(when, want string, until bool) {
		t.Helper()
		if inside := s.closes(claim, true); !strings.Contains(inside, want) || strings.Contains(inside, "whose CREATE") != until {
			t.Errorf("%s the refusal is %q; want %q in it", when, inside, want)
		}
	}
	b := answer("a")
	refuses("in flight", "1 allocation, of claim default/a, whose CREATE may succeed until "+b.BoundAt.Add(promise.Grace).UTC().Format(time.RFC3339), true)
	stored := gen.Claim("a")
	stored.Status.AllocationID, stored.Status.AllocatedCIDR = types.UID(b.Holder.Claim), b.Prefix.String()
	testbed.Create(t, s.workspace, stored)
	s.Answers.Stored(b.Holder)
	refuses("stored", "1 allocation, of claim default/a", false)
	s.deletes(stored)
	b = answer("b")
	s.clock.SetTime(b.BoundAt.Add(promise.Grace + time.Second))
	refuses("after that time", "", false)
}
