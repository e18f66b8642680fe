package recover

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/etcdtest"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// scene is a real ledger, and the objects of workspace w that are published for it:
//
//	pool root         10.0.0.0/16, without 10.0.255.0/24
//	  claim a         10.0.0.0/28
//	  retained of r   10.0.0.16/28
//	  pool child      10.0.1.0/24
//
// Nothing differs until a test changes it.
type scene struct {
	*testing.T
	*Verifier
	etcd     *clientv3.Client
	ledger   *allocator.Allocator
	pools    map[string]*ipamv1alpha1.IPPool
	claims   map[string]*ipamv1alpha1.IPClaim
	records  map[string]*ipamv1alpha1.IPAllocation // by the name of their claim
	looks    int
	gone     error  // nil: the APIExport exists; errGone: it does not; else why that cannot be read
	replaced string // what Replaced returns
	between  func() // called before the second comparison
}

func newScene(t *testing.T) *scene {
	t.Helper()
	etcd := etcdtest.New(t).Client()
	root := testbed.Pool("w", "uid-of-root", "10.0.0.0/16")
	root.Name, root.Excluded = "root", []netip.Prefix{netip.MustParsePrefix("10.0.255.0/24")}
	alloc := testbed.Ledger(t, etcd, allocator.Options{}, root)
	s := &scene{
		T: t, etcd: etcd, ledger: alloc, between: func() {},
		pools: map[string]*ipamv1alpha1.IPPool{}, claims: map[string]*ipamv1alpha1.IPClaim{}, records: map[string]*ipamv1alpha1.IPAllocation{},
	}
	s.Verifier = NewVerifier(VerifierOptions{Ledger: s, World: s, Pause: time.Millisecond})

	s.hold("a", "10.0.0.0/28")
	s.hold("r", "10.0.0.16/28")
	s.retain("r", time.Time{})
	must.Get(alloc.Pools().Carve(t.Context(), ledger.Request{
		Pool: "uid-of-root", Exact: netip.MustParsePrefix("10.0.1.0/24"),
		Holder: ledger.Holder{Claim: "uid-of-child", Cluster: "w", Name: "child"},
	}, ledger.Pool{ID: "uid-of-child", Cluster: "w", Name: "child", Parent: "uid-of-root"}))(t)
	s.show("root", "10.0.0.0/16", "65536", "544", "64992")
	s.show("child", "10.0.1.0/24", "256", "0", "256")
	return s
}

// hold binds a block of the pool root, and publishes it.
func (s *scene) hold(name, prefix string) {
	s.Helper()
	must.Get(s.ledger.Bind(s.Context(), request(name, prefix)))(s)
	s.publish(name, prefix)
}

// retain retains the block of a claim, deletes the claim, and publishes the IPAllocation as a retained one.
func (s *scene) retain(name string, until time.Time) {
	s.Helper()
	_, _, err := s.ledger.Retained().Retain(s.Context(), ledger.ClaimID("uid-of-"+name), until)
	must.Do(s, err)
	delete(s.claims, name)
	s.unclaim(name)
}

// unclaim publishes the IPAllocation of a claim as a retained one.
func (s *scene) unclaim(name string) {
	s.records[name].Spec.ClaimRef = nil
	s.records[name].Annotations = map[string]string{ipamv1alpha1.AnnotationRetainedFrom: name + "/uid-of-" + name}
}

func request(name, prefix string) ledger.Request {
	return ledger.Request{
		Pool: "uid-of-root", Exact: netip.MustParsePrefix(prefix),
		Holder: ledger.Holder{Claim: ledger.ClaimID("uid-of-" + name), Cluster: "w", Namespace: "default", Name: name},
	}
}

func (s *scene) publish(name, prefix string) {
	s.claims[name] = gen.Claim(name)
	s.claims[name].Status = ipamv1alpha1.IPClaimStatus{Phase: ipamv1alpha1.ClaimBound, AllocatedCIDR: prefix}
	s.records[name] = gen.Allocation(name, "root", prefix)
}

// show publishes a pool.
func (s *scene) show(name, cidr, total, allocated, available string) {
	pool := gen.Pool(name)
	pool.Status.AllocatedCIDR = cidr
	pool.Status.Capacity = &ipamv1alpha1.PoolCapacity{Total: total, Allocated: allocated, Available: available}
	s.pools[name] = pool
}

// Walk implements Ledger.
func (s *scene) Walk(ctx context.Context, visitor ledger.Visitor) (int64, error) {
	if s.looks++; s.looks == 2 {
		s.between()
	}
	return allocator.Reader{Client: s.etcd}.Walk(ctx, visitor)
}

// errGone: the scene has no APIExport, and nothing can be read.
var errGone = errors.New("endpoint slice may lack endpoints")

// ExportGone implements World.
func (s *scene) ExportGone(context.Context) (bool, error) {
	if errors.Is(s.gone, errGone) {
		return true, nil
	}
	return false, s.gone
}

// Replaced implements World.
func (s *scene) Replaced(context.Context) (string, error) { return s.replaced, nil }

// Each implements World.
func (s *scene) Each(_ context.Context, list client.ObjectList, visit func(ledger.ClusterName, client.Object)) error {
	if errors.Is(s.gone, errGone) {
		return s.gone
	}
	switch list.(type) {
	case *ipamv1alpha1.IPPoolList:
		all(s.pools, visit)
	case *ipamv1alpha1.IPClaimList:
		all(s.claims, visit)
	case *ipamv1alpha1.IPAllocationList:
		all(s.records, visit)
	}
	return nil
}

func all[T client.Object](objects map[string]T, visit func(ledger.ClusterName, client.Object)) {
	for _, name := range slices.Sorted(maps.Keys(objects)) {
		visit("w", objects[name])
	}
}

// put writes a key of the ledger, past the allocator.
func (s *scene) put(key, value string) {
	s.Helper()
	must.Get(s.etcd.Put(s.Context(), "/ipam/v1/"+key, value))(s)
}

// valueOfA returns the value of the key of claim a's block in the ledger.
func (s *scene) valueOfA() string {
	s.Helper()
	value := s.remove(blockOfA)
	s.put(blockOfA, value)
	return value
}

// remove takes a key out of the ledger, past the allocator, and returns its value.
func (s *scene) remove(key string) string {
	s.Helper()
	was := must.Get(s.etcd.Delete(s.Context(), "/ipam/v1/"+key, clientv3.WithPrevKV()))(s)
	if len(was.PrevKvs) != 1 {
		s.Fatalf("the ledger has no key %s", key)
	}
	return string(was.PrevKvs[0].Value)
}

// wants verifies, and expects findings of exactly these kinds, sorted, with one finding or more of each kind. It
// returns the findings.
func (s *scene) wants(want ...Kind) []Finding {
	s.Helper()
	report := must.Get(s.Verify(s.Context()))(s)
	var kinds []Kind
	for _, f := range report.Findings {
		kinds = append(kinds, f.Kind)
	}
	if got := slices.Compact(kinds); !slices.Equal(got, want) {
		s.Fatalf("found %+v, want %v", report.Findings, want)
	}
	return report.Findings
}
