package sim

import (
	"context"
	"fmt"
	"math/big"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/etcdtest"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers"
	"github.com/kcp-ipam/ipam/controllers/recover"
	"github.com/kcp-ipam/ipam/test/sim/simetcd"
	"github.com/kcp-ipam/ipam/test/sim/simkcp"
)

// atRest judges the state when the faults have ended and nothing has happened for some minutes.
func (s *Simulation) atRest() {
	blocks := s.checkLedger()
	if !s.oracles.off { // "A kcp that is restored from an old copy does not know newer claims; a brake keeps their blocks": verify shows them
		s.verify()
	}
	for _, o := range s.world.All("ipclaims") {
		claim := read(o.Unstructured)
		switch bound := claim.Status.Phase == ipamv1alpha1.ClaimBound; {
		case claim.DeletionTimestamp != nil:
		case !bound:
			s.judgeWaiting(o.Cluster, claim, blocks)
		case s.profile.Fair && s.oracles.pool(o.Cluster, claim) == nil:
			s.find("POOLREF", "%s names pool %s at rest, which is not there", keyOf(o.Cluster, claim.Namespace, claim.Name), poolOf(claim))
		}
	}
	s.judgeCapacities(blocks)
	s.judgeGone()
	s.judgeRetained()
	s.judgeBrake()
	s.probe()
}

// catcher turns the failures of a check into findings.
type catcher struct {
	testing.TB
	s *Simulation
}

func (c catcher) Helper()                           {}
func (c catcher) Errorf(format string, args ...any) { c.s.find("LEDGER", format, args...) }
func (c catcher) Fatalf(format string, args ...any) { c.s.find("LEDGER", format, args...) }

// fairEtcd returns a client of etcd without faults.
func (s *Simulation) fairEtcd() *simetcd.Link {
	return simetcd.NewLink(s.etcd, func(any) simetcd.Fate { return simetcd.Fate{} }, func() time.Duration { return 0 })
}

// checkLedger reads the ledger, sharing no code with its writer, and returns its blocks.
func (s *Simulation) checkLedger() []etcdtest.Record {
	return etcdtest.CheckLedger(catcher{s.t, s}, s.fairEtcd().Client(context.Background()), ledgerPrefix)
}

// verify lets the product compare everything, by connections without faults.
func (s *Simulation) verify() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	kcp := simkcp.NewTransport(s.world, func(string, string) simkcp.Fate { return simkcp.Fate{} }, func(string) time.Duration { return 0 })
	scheme, err := controllers.Scheme()
	if err != nil {
		panic(err)
	}
	ground := controllers.Ground{
		Config: &rest.Config{Host: "http://kcp/clusters/" + simkcp.PlatformPath, Transport: kcp, QPS: -1, Burst: -1},
		Export: ipamv1alpha1.GroupName, Scheme: scheme,
		Platform: controllers.Workspace{Cluster: ledger.ClusterName(simkcp.Platform), Path: simkcp.PlatformPath},
	}
	verifier, err := controllers.NewVerifier(ground, allocator.Reader{Client: s.fairEtcd().Client(ctx), Prefix: ledgerPrefix}, recover.VerifierDefaults())
	if err != nil {
		panic(err)
	}
	report, err := verifier.Verify(ctx)
	if err != nil {
		s.find("VERIFY", "%v", err)
		return
	}
	for _, f := range report.Findings {
		if f.Kind == "BlockWithoutRecord" && s.keptOut(string(f.Cluster), f.Namespace, f.Name) {
			continue
		}
		s.find("VERIFY", "%s %s %s %s/%s: %s", f.Kind, f.Prefix, f.Cluster, f.Namespace, f.Name, f.Message)
	}
}

// keptOut reports whether a claim says that a retained record has the name of its own record. If two CREATEs of a
// name are answered side by side, the first claim may be stored, published and deleted before the second is stored.
// Then the second claim has its block, but no record: "a claim of the same name then waits with AllocationRetained".
func (s *Simulation) keptOut(cluster, namespace, name string) bool {
	claim := s.world.Find("ipclaims", cluster, namespace, name)
	return claim != nil && reasonOf(read(claim.Unstructured)) == ipamv1alpha1.ReasonAllocationRetained
}

// judgeWaiting judges that a claim waits for something that is not there.
func (s *Simulation) judgeWaiting(cluster string, claim *ipamv1alpha1.IPClaim, blocks []etcdtest.Record) {
	of := classes[claim.Spec.ClassName]
	starved := false
	switch reasonOf(claim) {
	case "", "Error", "Pending":
		starved = true
	case ipamv1alpha1.ReasonPoolExhausted, ipamv1alpha1.ReasonAddressInUse:
		starved = of.window != "" && s.fits(claim, blocks)
	case ipamv1alpha1.ReasonAllocationRetained:
		starved = !s.recorded(cluster, claim)
	case ipamv1alpha1.ReasonQuotaExceeded:
		starved = of.most > 0 && holds(cluster, claim.Spec.ClassName, blocks) < of.most
	default: // a class or a pool is the reason, and the world does not change these
	}
	if starved {
		s.find("STARVED", "%s %s %s waits, and could have it: %s %s", keyOf(cluster, claim.Namespace, claim.Name),
			claim.Spec.ClassName, claim.Spec.Address, reasonOf(claim), messageOf(claim))
	}
}

// messageOf returns the message of the condition Allocated.
func messageOf(claim *ipamv1alpha1.IPClaim) string {
	for _, c := range claim.Status.Conditions {
		if c.Type == ipamv1alpha1.ConditionAllocated {
			return c.Message
		}
	}
	return ""
}

// fits reports whether the pool of the claim's class has a free block that suits the claim: "PoolExhausted: no pool
// tried has a block of that size".
func (s *Simulation) fits(claim *ipamv1alpha1.IPClaim, blocks []etcdtest.Record) bool {
	taken := s.excluded(claim.Spec.ClassName)
	for _, b := range blocks {
		taken = append(taken, b.Prefix)
	}
	window := netip.MustParsePrefix(classes[claim.Spec.ClassName].window)
	for a := window.Addr(); window.Contains(a); a = a.Next() {
		block := netip.PrefixFrom(a, int(lengthOf(claim)))
		wanted := block == block.Masked() && (claim.Spec.Address == "" || claim.Spec.Address == a.String())
		if wanted && !slices.ContainsFunc(taken, block.Overlaps) {
			return true
		}
	}
	return false
}

// excluded returns the exclusions of a pool of the platform.
func (s *Simulation) excluded(name string) (list []netip.Prefix) {
	for _, o := range s.world.All("ippools") {
		if o.Cluster != simkcp.Platform || o.GetName() != name {
			continue
		}
		excluded, _, _ := unstructured.NestedStringSlice(o.Object, "spec", "excludedCIDRs")
		for _, cidr := range excluded {
			list = append(list, netip.MustParsePrefix(cidr))
		}
	}
	return list
}

// recorded reports whether there is a record by the name of a claim.
func (s *Simulation) recorded(cluster string, claim *ipamv1alpha1.IPClaim) bool {
	names := ipamv1alpha1.AllocationNames(claim.Namespace, claim.Name)
	return slices.ContainsFunc(s.world.All("ipallocations"), func(o simkcp.Object) bool {
		return o.Cluster == cluster && o.GetNamespace() == claim.Namespace && slices.Contains(names[:], o.GetName())
	})
}

// holds counts the blocks of a class that a workspace holds. A block whose claim a restored kcp does not know counts,
// too: "a brake keeps their blocks", and the controller believes no kcp whose revision is older than the claim.
func holds(cluster, class string, blocks []etcdtest.Record) (n int) {
	for _, b := range blocks {
		if b.Of == cluster && b.Class == class {
			n++
		}
	}
	return n
}

// judgeCapacities judges the status of each pool: it adds up, and in a pool of one address space it counts the blocks.
func (s *Simulation) judgeCapacities(blocks []etcdtest.Record) {
	for _, o := range s.world.All("ippools") {
		number := func(field string) *big.Int {
			text, _, _ := unstructured.NestedString(o.Object, "status", "capacity", field)
			n, ok := new(big.Int).SetString(text, 10)
			if !ok {
				return big.NewInt(-1)
			}
			return n
		}
		where := letterOf(o.Cluster) + "/" + o.GetName()
		total, allocated, available := number("total"), number("allocated"), number("available")
		if new(big.Int).Add(allocated, available).Cmp(total) != 0 {
			s.find("CAPACITY", "pool %s has %s allocated and %s available of %s", where, allocated, available, total)
		}
		if window := classes[o.GetName()].window; o.Cluster == simkcp.Platform && window != "" {
			if held := s.held(o.GetName(), netip.MustParsePrefix(window), blocks); allocated.Cmp(big.NewInt(held)) != 0 {
				s.find("CAPACITY", "pool %s says that %s addresses are allocated, and %d are", where, allocated, held)
			}
		}
	}
}

// held counts the addresses of a pool that are excluded, or in a block.
func (s *Simulation) held(name string, window netip.Prefix, blocks []etcdtest.Record) (n int64) {
	excluded := s.excluded(name)
	for a := window.Addr(); window.Contains(a); a = a.Next() {
		inside := func(p netip.Prefix) bool { return p.Contains(a) }
		if slices.ContainsFunc(excluded, inside) || slices.ContainsFunc(blocks, func(b etcdtest.Record) bool { return inside(b.Prefix) }) {
			n++
		}
	}
	return n
}

// judgeGone judges that deleted records stay deleted.
func (s *Simulation) judgeGone() {
	s.oracles.mu.Lock()
	defer s.oracles.mu.Unlock()
	for _, o := range s.world.All("ipallocations") {
		at, told := s.oracles.gone[keyOf(o.Cluster, o.GetNamespace(), o.GetName())]
		if _, held, _ := unstructured.NestedString(o.Object, "spec", "claimRef", "name"); told && !held {
			s.find("GONE", "a tenant was told at %s that record %s is gone, and it is there: %s",
				at.Sub(s.began), keyOf(o.Cluster, o.GetNamespace(), o.GetName()), simkcp.Brief(o.Unstructured))
		}
	}
}

// binding is how long a probe that was stored without an answer may stay unbound: "CREATE succeeds with an empty or
// Pending status, and the reconcile binds the claim". The contract has no bound; a claim that takes longer here waits
// for something.
const binding = 10 * time.Second

// probe creates two claims of each class: one in a network that is in use, and one in a new network. A class without
// networks gets one claim, and a class of ranges none.
func (s *Simulation) probe() {
	for i, name := range sorted(classes) {
		letter := letters[(i+int(s.story.Seed))%len(letters)]
		for j, network := range []string{"n0", "probe"} {
			if flat := classes[name].tenancy == "" && len(classes[name].unique) == 0; flat && j > 0 {
				continue
			}
			s.probeOne(fmt.Sprintf("%s-p%d", letter, 2*i+j), name, network)
		}
	}
}

// served are the reasons for which a probe may wait, because other claims have all that it could get.
var served = []ipamv1alpha1.Reason{
	ipamv1alpha1.ReasonPoolExhausted, ipamv1alpha1.ReasonQuotaExceeded, ipamv1alpha1.ReasonAllocationRetained,
}

func (s *Simulation) probeOne(claim, class, network string) {
	letter, words := claim[:1], []string{claim, class, "network=" + network, "cell=x0"}
	if classes[class].level == class {
		return // their ranges may be held by tenants
	}
	p := &player{Simulation: s, actor: "probe", user: s.user(letter + "0")}
	probe, err := described(append(words, "wait"))
	if err != nil {
		panic(err)
	}
	probe.Spec.PrefixLength = 32
	ctx, cancel := patiently()
	defer cancel()
	o, err := p.user.Create(ctx, "ipclaims", probe)
	p.said("CREATE "+strings.Join(words, " "), o, err)
	if err != nil {
		s.find("SERVICE", "a claim of class %s in network %s of workspace %s is refused at rest: %v", class, network, letter, err)
		return
	}
	answer := read(o)
	if answer.Status.Phase != ipamv1alpha1.ClaimBound {
		time.Sleep(binding)
		if o, err = p.user.Get("ipclaims", probe.Namespace, probe.Name); err == nil {
			answer = read(o)
		}
	}
	if answer.Status.Phase != ipamv1alpha1.ClaimBound && !mayWait(class, network, reasonOf(answer)) && s.offers(class) {
		s.find("SERVICE", "a claim of class %s in network %s of workspace %s waits at rest: %s %s",
			class, network, letter, reasonOf(answer), messageOf(answer))
	}
	p.delete(words)
}

// mayWait reports whether a probe may wait for a reason. If each network has addresses of its own, all addresses of a
// new network are free, except in class mvrf: its pool serves another class, too, whose addresses cool in it.
func mayWait(class, network string, why ipamv1alpha1.Reason) bool {
	free := network == "probe" && slices.Contains(classes[class].unique, "network") && class != "mvrf"
	return slices.Contains(served, why) && !free
}

// offers reports whether a pool of the platform serves the class now. Only mflat and mvrf may be without a pool.
func (s *Simulation) offers(class string) bool {
	if class != "mflat" && class != "mvrf" {
		return true
	}
	return slices.ContainsFunc(s.world.All("ippools"), func(o simkcp.Object) bool {
		names, _, _ := unstructured.NestedStringSlice(o.Object, "spec", "classNames")
		return o.Cluster == simkcp.Platform && slices.Contains(names, class)
	})
}
