package claim

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/door"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// forgery is a claim that was stored with a block which it was never given. Unless the test says otherwise, the block
// is 10.0.0.0/28, and a claim of another workspace has it.
type forgery struct {
	*scene
	claim *ipamv1alpha1.IPClaim
}

func forge(t *testing.T, name string) *forgery {
	t.Helper()
	return forgeIn(t, allocator.Options{}, name)
}

// forgeIn does the same as forge, in a ledger with these options.
func forgeIn(t *testing.T, options allocator.Options, name string) *forgery {
	t.Helper()
	s := newScene(t, options, offered())
	s.memory.clock = s.now
	t.Cleanup(func() { unmet.remove(requestIn("tenant", name)) })
	other := ledger.Holder{Claim: "other", Cluster: "other", Namespace: "default", Name: "other"}
	must.Get(s.ledger.Bind(t.Context(), ledger.Request{Pool: "uid-of-p", Holder: other, Length: 28}))(t)
	claim := gen.Claim(name, gen.OfClass("internal"))
	return &forgery{s, s.stored(claim, door.Answer{Status: shows("10.0.0.0/28")})}
}

// shows returns the status of a claim that is bound to a block.
func shows(cidr string) ipamv1alpha1.IPClaimStatus {
	block := ledger.Block{Prefix: netip.MustParsePrefix(cidr), Class: "internal"}
	claim := gen.Claim("")
	succeeded(claim, block, ipamv1alpha1.PoolRef{Name: "p", ProjectRef: &ipamv1alpha1.ProjectRef{Name: "root:ipam"}}, "of-another")
	return claim.Status
}

// look sets the clock to the present time plus after, reconciles the claim, and returns it.
func (f *forgery) look(after time.Duration) *ipamv1alpha1.IPClaim {
	f.Helper()
	f.later(after)
	_, _ = f.Reconcile(f.Context(), requestIn("tenant", f.claim.Name)) // an error while the claim keeps its block
	now := gen.Claim(f.claim.Name)
	must.Do(f, f.tenant.Client.Get(f.Context(), client.ObjectKeyFromObject(now), now))
	return now
}

// keeps reconciles the claim twice, after all delays, and fails the test unless the claim still shows its block.
func (f *forgery) keeps(why string) {
	f.Helper()
	for _, after := range []time.Duration{time.Hour, 2 * time.Hour} {
		if got := f.look(after).Status.AllocatedCIDR; got != f.claim.Status.AllocatedCIDR {
			f.Errorf("%s, and after %s the claim shows %q; want %s kept", why, after, got, f.claim.Status.AllocatedCIDR)
		}
	}
}

// A claim that shows the block of another claim loses that block after promise.Grace, but not before: until then, its
// CREATE may not be over. Then the claim is served as any other claim.
func TestUnbacked_IsTakenBack(t *testing.T) {
	t.Parallel()
	f := forge(t, "forged")
	f.look(lasting)
	if now := f.look(promise.Grace - time.Second); now.Status.AllocatedCIDR != "10.0.0.0/28" {
		t.Errorf("before its CREATE is over for certain it shows %+v; want what it was stored with", now.Status)
	}
	f.look(promise.Grace + time.Second)
	now := f.look(promise.Grace + lasting + 2*time.Second)
	allocated := meta.FindStatusCondition(now.Status.Conditions, ipamv1alpha1.ConditionAllocated)
	if s := now.Status; s.AllocatedCIDR != "" || s.Address != "" || s.PoolRef != nil || s.BoundAllocationRef != nil || allocated == nil || allocated.Status != "False" {
		t.Errorf("the claim shows %+v; want no block, and Allocated False", s)
	}
	told := false
	for len(f.tenant.Events.Events) > 0 {
		told = strings.Contains(<-f.tenant.Events.Events, "10.0.0.0/28 was shown and never given") || told
	}
	if !told {
		t.Error("no event tells that the block was taken back")
	}
	f.wantBlocks("10.0.0.0/28 bound other")

	if now := f.look(2 * time.Minute); now.Status.AllocatedCIDR != "10.0.0.16/28" || now.Status.Phase != ipamv1alpha1.ClaimBound {
		t.Errorf("the claim shows %+v; want it bound to 10.0.0.16/28", now.Status)
	}
	f.wantBlocks("10.0.0.0/28 bound other", "10.0.0.16/28 bound uid-of-forged")
}

// To prove that a claim was never given the block that it shows takes a list of all pools. So only one worker at a time
// proves this, and other such claims wait.
func TestUnbacked_IsProvedByOneWorkerAtATime(t *testing.T) {
	t.Parallel()
	f := forge(t, "waits")
	f.taking.Lock()
	f.Complete = func(context.Context, ledger.ClusterName, client.Object) (bool, error) {
		t.Error("the pools are listed while another worker does so")
		return true, nil
	}
	f.keeps("another claim is looked into")
	f.Complete = func(context.Context, ledger.ClusterName, client.Object) (bool, error) { return true, nil }
	f.taking.Unlock()
	if got := f.look(3 * time.Hour).Status.AllocatedCIDR; got != "" {
		t.Errorf("the claim shows %s once no other is looked into; want nothing", got)
	}
}

// A claim that is being deleted has a finalizer. It loses the block of another claim all the same, even while its
// workspace gives up the export. A claim whose block is its own shows the block to the end.
func TestUnbacked_IsTakenBackThoughAFinalizerKeepsTheClaim(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"forged": "", "unbound": "", "honest": "10.0.0.0/28"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := forge(t, name)
			if name == "unbound" { // the finalizer keeps the binding, too
				leaving := binding()
				leaving.DeletionTimestamp = &metav1.Time{Time: time.Now()}
				f.Directory.Seen("endpoint", leaving)
			}
			if name == "honest" {
				holder := ledger.Holder{Claim: "uid-of-honest", Cluster: "tenant", Namespace: "default", Name: name}
				must.Do(t, f.ledger.Release(t.Context(), "other"))
				must.Get(f.ledger.Bind(t.Context(), ledger.Request{Pool: "uid-of-p", Holder: holder, Length: 28}))(t)
			}
			f.claim.Finalizers = []string{"example.com/mine"}
			must.Do(t, errors.Join(f.tenant.Client.Update(t.Context(), f.claim), f.tenant.Client.Delete(t.Context(), f.claim)))
			f.look(time.Hour)
			if now := f.look(2 * time.Hour); now.Status.AllocatedCIDR != want || now.Status.Phase != ipamv1alpha1.ClaimReleasing {
				t.Errorf("the claim shows %q, and is %s; want %q, and Releasing", now.Status.AllocatedCIDR, now.Status.Phase, want)
			}
		})
	}
}

// A text that is not a prefix lies in no pool, and is taken back though the ledger is not complete.
func TestUnbacked_TakesBackATextThatIsNotAPrefix(t *testing.T) {
	t.Parallel()
	f := forge(t, "no-prefix")
	f.Complete = func(context.Context, ledger.ClusterName, client.Object) (bool, error) { return false, nil }
	f.claim.Status.AllocatedCIDR = "10.0.0.0/280"
	must.Do(t, f.tenant.Client.Status().Update(t.Context(), f.claim))
	f.servers.claim = f.claim
	f.look(time.Hour)
	if now := f.look(2 * time.Hour); now.Status.AllocatedCIDR != "" {
		t.Errorf("the claim shows %q; want nothing", now.Status.AllocatedCIDR)
	}
}

// A claim keeps the block that it shows as long as the ledger may be wrong instead of the claim.
func TestUnbacked_IsKeptInDoubt(t *testing.T) {
	t.Parallel()
	for name, doubt := range map[string]func(f *forgery){
		"no server shows the claim": func(f *forgery) { f.servers.claim = nil },
		"a server shows another block": func(f *forgery) {
			f.servers.claim = f.claim.DeepCopy()
			f.servers.claim.Status.AllocatedCIDR = "10.0.0.32/28"
		},
		"a server shows its record": func(f *forgery) { f.servers.recorded = true },
		"the servers are away":      func(f *forgery) { f.servers.away = errors.New("away") },
		"the ledger is not complete": func(f *forgery) {
			f.Complete = func(context.Context, ledger.ClusterName, client.Object) (bool, error) { return false, nil }
		},
		"a shard is away": func(f *forgery) {
			f.Complete = func(context.Context, ledger.ClusterName, client.Object) (bool, error) {
				return true, errors.New("away")
			}
		},
		"the cache shows its record": func(f *forgery) {
			record := gen.Allocation(f.claim.Name, "p", "10.0.0.0/28")
			must.Do(f, f.tenant.Client.Create(f.Context(), record))
		},
		"a former claim of its name has the block": func(f *forgery) {
			former := ledger.Holder{Claim: "former", Cluster: "tenant", Namespace: "default", Name: f.claim.Name}
			must.Get(f.ledger.Bind(f.Context(), ledger.Request{Pool: "uid-of-p", Holder: former, Exact: netip.MustParsePrefix("10.0.0.32/28")}))(f)
			f.claim.Status = shows("10.0.0.32/28")
			must.Do(f, f.tenant.Client.Status().Update(f.Context(), f.claim))
			f.servers.claim = f.claim
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := forge(t, "doubted")
			doubt(f)
			f.keeps(name)
		})
	}
}

// The ledger is asked once more after it was found complete. A block that was adopted meanwhile stays the claim's.
func TestUnbacked_KeepsABlockThatWasAdoptedMeanwhile(t *testing.T) {
	t.Parallel()
	f := forge(t, "adopted")
	f.claim.Status = shows("10.0.0.32/28")
	must.Do(t, f.tenant.Client.Status().Update(t.Context(), f.claim))
	f.servers.claim = f.claim
	f.Complete = func(ctx context.Context, _ ledger.ClusterName, shown client.Object) (bool, error) {
		prefix := netip.MustParsePrefix(shown.(*ipamv1alpha1.IPClaim).Status.AllocatedCIDR)
		holder := ledger.Holder{Claim: "uid-of-adopted", Cluster: "tenant", Namespace: "default", Name: "adopted"}
		_, err := f.ledger.Recovery().Adopt(ctx, ledger.Request{Pool: "uid-of-p", Holder: holder, Exact: prefix}, ledger.Bound)
		return true, err
	}
	f.keeps("its block was adopted meanwhile")
	if now := f.look(3 * time.Hour); now.Status.Phase != ipamv1alpha1.ClaimBound || outcome.Failing(now.Status.Conditions) {
		t.Errorf("the claim shows %+v; want it bound", now.Status)
	}
}

// A claim whose status was changed shows its own block, address, pool and record again.
func TestUnbacked_ShowsItsOwnBlockAgain(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*ipamv1alpha1.IPClaimStatus){
		"a block":      func(s *ipamv1alpha1.IPClaimStatus) { s.AllocatedCIDR = "10.0.0.32/28" },
		"an address":   func(s *ipamv1alpha1.IPClaimStatus) { s.Address = "10.0.0.32" },
		"a pool":       func(s *ipamv1alpha1.IPClaimStatus) { s.PoolRef = &ipamv1alpha1.PoolRef{Name: "other"} },
		"other record": func(s *ipamv1alpha1.IPClaimStatus) { s.BoundAllocationRef.Name = "other" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, allocator.Options{}, offered())
			claim := gen.Claim("c", gen.OfClass("internal"))
			answer := s.create(claim)
			s.stored(claim, answer)
			s.reconcile("c")
			was := s.reconcile("c")
			changed := was.DeepCopy()
			change(&changed.Status)
			must.Do(t, s.tenant.Client.Status().Update(t.Context(), changed))
			now := s.reconcile("c")
			if got, want := now.Status, was.Status; got.AllocatedCIDR != want.AllocatedCIDR || got.Address != want.Address || got.PoolRef.Name != want.PoolRef.Name || *got.BoundAllocationRef != *want.BoundAllocationRef {
				t.Errorf("the claim shows %+v, want %+v", got, want)
			}
			s.wantBlocks("10.0.0.0/28 bound " + id(answer))
		})
	}
}

// A refused claim shows no address, pool or record, though it was stored with them.
func TestRefused_ShowsNoAddress(t *testing.T) {
	t.Parallel()
	s := newScene(t, allocator.Options{}, offered())
	t.Cleanup(func() { unmet.remove(requestIn("tenant", "bare")) })
	status := shows("10.0.0.0/28")
	status.AllocatedCIDR, status.Address = "", "10.0.0.5"
	s.stored(gen.Claim("bare", gen.OfClass("none")), door.Answer{Status: status})
	if now := s.reconcile("bare").Status; now.Address != "" || now.PoolRef != nil || now.BoundAllocationRef != nil {
		t.Errorf("a claim that was refused shows %+v; want no address, pool and record", now)
	}
}
