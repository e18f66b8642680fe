package derived

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/controllers/internal/views"
	"github.com/kcp-ipam/ipam/controllers/release"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// ranged makes a claim that holds the pool of a network.
func (s *scene) ranged(class, name string, above ledger.PoolID, length int) (*ipamv1alpha1.IPClaim, ledger.Pool) {
	s.Helper()
	claim := gen.Claim("range-"+class, gen.OfClass(class))
	testbed.Create(s, s.workspace, claim)
	p := s.network(class, name, above, length, holderOf(claim))
	claim.Status.AllocatedCIDR = p.CIDR.String()
	return claim, p
}

// closes asks for the DELETE of a claim, within half a second.
func (s *scene) closes(claim *ipamv1alpha1.IPClaim, dry bool) string {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 500*time.Millisecond)
	defer cancel()
	inside, err := s.CloseRange(ctx, tenant, claim, dry)
	if err != nil {
		s.Fatalf("CloseRange of %s: %v", claim.Name, err)
	}
	return inside
}

// mustClose asks for the DELETE of a claim, and expects it to be allowed.
func (s *scene) mustClose(claim *ipamv1alpha1.IPClaim) {
	s.Helper()
	if inside := s.closes(claim, false); inside != "" {
		s.Fatalf("the DELETE of %s is refused: %s", claim.Name, inside)
	}
}

// space makes an address space of a pool.
func (s *scene) space(pool ledger.PoolID) ledger.Pool {
	s.Helper()
	return must.Get(s.alloc.Derived().Space(s.Context(), pool, tenant, ledger.Scope{"vrf": {Kind: "VRF", Name: "red"}}))(s)
}

// wantComplete expects a range that was closed to be open, or gone.
func (s *scene) wantComplete(p ledger.Pool) {
	s.Helper()
	if done, err := s.Complete(s.Context(), p.ID); !done || err != nil {
		s.Errorf("Complete = %t, %v; want the pool to be open, or gone", done, err)
	}
}

func (s *scene) deletes(objects ...client.Object) {
	s.Helper()
	testbed.Delete(s, s.workspace, objects...)
}

// wantOpen expects a range to be open, and published.
func (s *scene) wantOpen(p ledger.Pool) {
	s.Helper()
	if now, ok := s.alloc.Pools().Get(p.ID); !ok || !now.Derived.Releasing.IsZero() || now.Derived.Holder != p.Derived.Holder || s.object(p) == nil {
		s.Errorf("the range is %+v (%t), with the object %v; want it open, held and published", now.Derived, ok, s.object(p))
	}
}

// A range is closed, and its IPPool gone, when its DELETE is allowed; the idle pools below it are gone, too. When the claim is gone,
// so is the pool.
func TestCloseRange_AnEmptyRange(t *testing.T) {
	s := newScene(t)
	claim, p := s.ranged("net", "a", "root", 24)
	below := s.network("sub", "a", p.ID, 28)
	gone := s.bind(below, "gone")
	s.deletes(gone) // and its release is not settled yet
	if inside := s.closes(claim, true); inside != "" || s.object(p) == nil || !s.known(below) {
		t.Errorf("a dry run says %q, the object is %v; want nothing, and all as it was", inside, s.object(p))
	}
	s.mustClose(claim)
	if s.object(p) != nil || s.object(below) != nil || s.known(below) || !s.known(p) {
		t.Errorf("the objects are %v and %v, the pool below known: %t, the range: %t; want the range alone", s.object(p), s.object(below), s.known(below), s.known(p))
	}
	s.mustClose(claim) // once more
	s.deletes(claim)
	if s.wantComplete(p); s.known(p) {
		t.Error("the pool is known; want it gone")
	}
}

// A range with somebody inside is not closed, and the refusal says who: three of the workspace at most by name, its others by number, and of
// other workspaces neither.
func TestCloseRange_ARangeInUse(t *testing.T) {
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
		for n := range 2 { // blocks of others are not counted
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

// A block whose claim is gone does not count, even if it cannot be freed yet, as nobody lives there: the DELETE is not decided. While
// nobody can tell, the looks at a range become rare: each asks for all that may be inside, and a user may send many DELETEs.
func TestCloseRange_AnUnsettledRelease(t *testing.T) {
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

// A kcp that was restored from a backup knows none of the claims inside. Their machines run: however often the range is deleted, by
// whatever replica, nothing of them is freed.
func TestCloseRange_FreesNothingOfARestoredKCP(t *testing.T) {
	s := newScene(t)
	claim, p := s.ranged("net", "a", "root", 24)
	const blocks = 150
	for n := range blocks {
		by := ledger.Holder{Claim: ledger.ClaimID(fmt.Sprintf("lost-%d", n)), Cluster: tenant, Namespace: "default", Name: fmt.Sprintf("lost-%d", n)}
		must.Get(s.alloc.Bind(t.Context(), ledger.Request{Pool: p.ID, Length: 32, Holder: by}))(t)
	}
	s.Releases = must.Get(release.New(unmanaged{}, release.Options{
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
	if left := must.Get(s.inside(t.Context(), p))(t); len(left) != blocks {
		t.Errorf("%d blocks are left of %d", len(left), blocks)
	}
	s.wantOpen(p)
}

// A range below that another claim holds counts, even if it is empty.
func TestCloseRange_AnEmptyRangeInside(t *testing.T) {
	s := newScene(t)
	claim, p := s.ranged("net", "a", "root", 24)
	inner, below := s.ranged("sub", "a", p.ID, 28)
	if inside := s.closes(claim, false); !strings.Contains(inside, "1 allocation, of range claim default/range-sub") {
		t.Errorf("the refusal is %q, want the inner range", inside)
	}
	s.mustClose(inner)
	s.deletes(inner) // and nobody has looked at that yet
	if s.mustClose(claim); s.known(below) {
		t.Error("the inner pool is known; want both gone")
	}
}

// A block that a CREATE in flight may show stays until none can succeed any more, though its claim is gone, and the refusal says until when.
func TestCloseRange_ACreateInFlight(t *testing.T) {
	s := newScene(t)
	claim, p := s.ranged("net", "a", "root", 24)
	reserved := promise.Of(tenant, gen.Claim("a"))
	b := must.Get(s.alloc.Bind(t.Context(), ledger.Request{Pool: p.ID, Length: 32, Holder: ledger.Holder{Claim: reserved, Cluster: tenant, Namespace: "default", Name: "a"}}))(t)
	want := "1 allocation, of claim default/a, whose CREATE may succeed until " + b.BoundAt.Add(promise.Grace).UTC().Format(time.RFC3339)
	if inside := s.closes(claim, true); !strings.Contains(inside, want) {
		t.Errorf("the refusal is %q; want it to say %q", inside, want)
	}
	s.clock.SetTime(b.BoundAt.Add(promise.Grace + time.Second))
	if inside := s.closes(claim, true); strings.Contains(inside, "whose CREATE") {
		t.Errorf("the refusal is %q after that time", inside)
	}
}

// A claim that was created a moment ago holds its range by a reservation, and can be deleted at once.
func TestCloseRange_AReservedRange(t *testing.T) {
	s := newScene(t)
	claim := gen.Claim("net", gen.OfClass("net"))
	p := s.network("net", "a", "root", 24, ledger.Holder{Claim: promise.Of(tenant, claim), Cluster: tenant, Namespace: "default", Name: "net"})
	claim.Status.AllocatedCIDR = p.CIDR.String()
	if s.mustClose(claim); s.object(p) != nil {
		t.Errorf("the object is %v; want none", s.object(p))
	}
	if now, _ := s.alloc.Derived().Held(ledger.ClaimID(claim.UID)); now.ID != p.ID {
		t.Errorf("the claim holds %s, want %s", now.ID, p.ID)
	}
}

// A claim that holds nothing is deleted, unless the ledger may have lost the range that the claim shows.
func TestCloseRange_NoRange(t *testing.T) {
	s := newScene(t)
	claim := gen.Claim("net", gen.OfClass("net"))
	claim.Status.AllocatedCIDR = "10.0.0.0/24"
	if inside, err := s.CloseRange(t.Context(), tenant, claim, false); inside != "" || err != nil {
		t.Errorf("CloseRange = %q, %v; want nothing", inside, err)
	}
	s.lost = true
	if inside, err := s.CloseRange(t.Context(), tenant, claim, false); !errors.Is(err, errLost) {
		t.Errorf("CloseRange = %q, %v; want errLost while the ledger may have lost the pool", inside, err)
	}
}

// A closed pool that got a block back after a loss of the ledger is opened again, unless a claim holds it.
func TestReconcile_AClosedPoolThatIsInUse(t *testing.T) {
	for _, held := range []bool{false, true} { // by a claim that is gone
		s := newScene(t)
		p := s.network("net", "b", "root", 24)
		if held {
			var claim *ipamv1alpha1.IPClaim
			claim, p = s.ranged("net", "a", "root", 24)
			s.deletes(claim)
		}
		must.Do(t, s.alloc.Derived().Begin(t.Context(), p.ID, p.Derived.Holder.Claim, s.clock.Now()))
		inside := ledger.Request{Pool: p.ID, Holder: holderOf(gen.Claim("inside")), Exact: netip.PrefixFrom(p.CIDR.Addr(), 32)}
		must.Get(s.alloc.Recovery().Adopt(t.Context(), inside, ledger.Bound))(t)
		s.clock.Step(promise.Grace)
		s.sweeps()
		open := *p.Derived
		open.Holder, p.Derived = ledger.Holder{}, &open
		s.wantOpen(p)
		s.wantComplete(p)
	}
}

// A workspace whose claim holds a pool that all share, and whose DELETE never succeeds, does not keep the others out.
func TestComplete_OpensAPoolThatAllShare(t *testing.T) {
	s := newScene(t)
	claim := gen.Claim("range", gen.OfClass("net"))
	claim.Finalizers = []string{"example.com/stays"}
	testbed.Create(t, s.workspace, claim)
	p := must.Get(s.alloc.Derived().Provision(t.Context(), ledger.Request{Pool: "root", Length: 24}, ledger.Pool{
		Cluster: tenant, Name: "net-all", Derived: &ledger.Derived{Class: "net", Scope: ledger.Scope{}, Holder: holderOf(claim)},
	}, nil))(t)
	s.mustClose(claim)
	s.deletes(claim)
	s.wantComplete(p)
	guest := ledger.Holder{Claim: "guest", Cluster: "v", Namespace: "n", Name: "guest"}
	must.Get(s.alloc.Bind(t.Context(), ledger.Request{Pool: p.ID, Holder: guest, Length: 32}))(t)
	if held, ok := s.alloc.Derived().Held(ledger.ClaimID(claim.UID)); !ok || held.ID != p.ID {
		t.Errorf("the claim holds %s, want %s as long as it is there", held.ID, p.ID)
	}
}

// The DELETE of a claim that is Terminating leaves its range as it is. Its owner may send it as often as he likes: the CREATEs of others in
// a shared network are served.
func TestCloseRange_IgnoresATerminatingClaim(t *testing.T) {
	s := newScene(t)
	claim := gen.Claim("range", gen.OfClass("net"))
	claim.Finalizers = []string{"example.com/stays"}
	testbed.Create(t, s.workspace, claim)
	p := must.Get(s.alloc.Derived().Provision(t.Context(), ledger.Request{Pool: "root", Length: 24}, ledger.Pool{
		Cluster: tenant, Name: "net-all", Derived: &ledger.Derived{Class: "net", Scope: ledger.Scope{}, Holder: holderOf(claim)},
	}, nil))(t)
	s.mustClose(claim)
	s.deletes(claim)
	s.wantComplete(p) // a CREATE of another workspace opens it
	must.Do(t, s.workspace.Get(t.Context(), client.ObjectKeyFromObject(claim), claim))
	for range 3 {
		s.mustClose(claim)
	}
	guest := ledger.Holder{Claim: "guest", Cluster: "v", Namespace: "n", Name: "guest"}
	must.Get(s.alloc.Bind(t.Context(), ledger.Request{Pool: p.ID, Holder: guest, Length: 32}))(t)
}

// A DELETE that was allowed and failed leaves the range closed, until no such DELETE can succeed any more. Then it is open again, and
// published. No cooldown in the address spaces of the range has ended: they go with the range.
func TestCloseRange_KeepsCooldownsIfTheDeleteFails(t *testing.T) {
	s := newScene(t)
	claim, p := s.ranged("net", "a", "root", 24)
	space := s.space(p.ID)
	s.cooldown = time.Hour
	former := must.Get(s.alloc.Bind(t.Context(), ledger.Request{Pool: space.ID, Length: 32, Holder: holderOf(gen.Claim("former"))}))(t)
	must.Do(t, s.alloc.Release(t.Context(), former.Holder.Claim))
	s.mustClose(claim)
	s.mustClose(claim) // while the range is closed
	s.look(p)
	if open, err := s.Complete(t.Context(), p.ID); open || err != nil || s.object(p) != nil {
		t.Errorf("Complete = %t, %v, the object is %v; want the range closed", open, err, s.object(p))
	}
	s.clock.Step(promise.Grace + time.Second)
	s.sweeps()
	s.wantOpen(p)
	space = s.space(p.ID)
	next := must.Get(s.alloc.Bind(t.Context(), ledger.Request{Pool: space.ID, Length: 32, Holder: holderOf(gen.Claim("next"))}))(t)
	if next.Prefix == former.Prefix {
		t.Errorf("%s is given to another claim within its cooldown", next.Prefix)
	}
	must.Do(t, s.alloc.Release(t.Context(), next.Holder.Claim))
	s.mustClose(claim)
	s.deletes(claim)
	s.clock.Step(promise.Grace + time.Second)
	if s.sweeps(); s.known(p) || s.known(space) {
		t.Errorf("the range is known: %t, its address space: %t; want neither", s.known(p), s.known(space))
	}
}

// reopenedAlone leaves a range open and its address spaces closed, as a process does that stops in between.
func (s *scene) reopenedAlone(p ledger.Pool, by ledger.ClaimID) {
	s.Helper()
	key := "/ipam/v1/pools/" + string(p.ID)
	open := must.Get(s.etcd.Get(s.Context(), key))(s).Kvs[0].Value
	must.Do(s, s.alloc.Derived().Begin(s.Context(), p.ID, by, s.clock.Now().Add(promise.Grace)))
	must.Get(s.etcd.Put(s.Context(), key, string(open)))(s)
	for s.closed(p) && s.Context().Err() == nil { // until it has seen the key
		runtime.Gosched()
	}
}

// closed reports whether nothing is bound in a pool, as it is being released.
func (s *scene) closed(p ledger.Pool) bool {
	now, _ := s.alloc.Pools().Get(p.ID)
	return now.Closed()
}

// A process that stops between a range and its address spaces, when the DELETE of the range claim has failed, leaves them closed. They are
// opened for the CREATE that is refused in one of them, and without one, too.
func TestController_OpensTheAddressSpacesOfAnOpenRange(t *testing.T) {
	for name, opens := range map[string]func(*scene, ledger.Pool){
		"by a sweep":   func(s *scene, _ ledger.Pool) { s.sweeps() },
		"for a CREATE": (*scene).wantComplete,
	} {
		s := newScene(t)
		claim, p := s.ranged("net", "a", "root", 24)
		space := s.space(p.ID)
		s.reopenedAlone(p, ledger.ClaimID(claim.UID))
		if opens(s, p); s.closed(space) || s.closed(p) {
			t.Errorf("%s: the address space is closed: %t, its range: %t; want neither", name, s.closed(space), s.closed(p))
		}
	}
}
