//go:build long

package stack

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/big"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/sweep"
	"github.com/kcp-ipam/ipam/test/chaos/etcd"
	"github.com/kcp-ipam/ipam/test/chaos/history"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

var (
	seeds  = flag.String("seeds", "1", "comma-separated seeds, one run for each")
	rounds = flag.Int("rounds", 0, "run this many seeds of the day instead")
	faults = flag.Int("faults", 3, "how many times something is killed in a run")
)

func TestMain(m *testing.M) { os.Exit(framework.Main(m)) }

// wanted returns the seeds to run.
func wanted(t *testing.T) []uint64 {
	t.Helper()
	var list []uint64
	for i := range *rounds {
		list = append(list, uint64(time.Now().Unix())+uint64(i))
	}
	if len(list) > 0 {
		return list
	}
	for s := range strings.SplitSeq(*seeds, ",") {
		seed := must.Get(strconv.ParseUint(s, 10, 64))(t)
		list = append(list, seed)
	}
	return list
}

// Whatever is killed, no address is ever held twice, and in the end all is in order.
func TestLong_Stack(t *testing.T) {
	for _, seed := range wanted(t) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			t.Logf("to repeat: go test -tags long ./test/chaos/stack -seeds %d -faults %d", seed, *faults)
			s := newSite(t, seed)
			s.run(seed)
			last := s.settles()
			s.upTo(last)
			s.empties(last)
			s.report()
		})
	}
}

// site is a platform with an etcd of its own, and its tenants.
type site struct {
	*testing.T
	store     *etcd.Cluster
	platform  *framework.Platform  // with the controller that uses store
	verify    []string             // flags for the command verify of that controller
	pool      *ipamv1alpha1.IPPool // the pool of flat claims
	networks  *ipamv1alpha1.IPPool // the pool of networks
	customers []*customer
	history   *history.History
}

// customers is how many tenants there are.
const customers = 3

// createGrace is how long the controller keeps the block of an answered CREATE whose claim does not exist.
const createGrace = 75 * time.Second

func newSite(t *testing.T, seed uint64) *site {
	t.Helper()
	s := &site{T: t}
	var err error
	s.store, err = etcd.New(t.Context(), etcd.Options{Dir: t.TempDir()})
	t.Cleanup(func() {
		if err := s.store.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	s.verify = []string{
		"--etcd-servers=http://" + s.store.Members[0].Addr,
		"--verify-socket=" + filepath.Join(t.TempDir(), "verify.sock"),
	}
	// If kcp is killed, a block may be left without a record. If its claim is deleted before a watch shows it again, the
	// block is left to the sweep. Here the sweep must not take a minute.
	sweeping := []string{"--orphan-min-age=5s", "--sweep-interval=3s", "--derived-pool-idle=3s"}
	s.platform = framework.NewPlatform(t).Replica(t, "chaos", slices.Concat(s.verify, sweeping)...)
	s.platform.StartController(t)
	// The pool has room for all claims at once, however scattered, but its addresses are soon given out again.
	s.pool = gen.Pool("chaos", gen.CIDR("10.0.0.0/24"), gen.Backs("chaos"), gen.Visible(ipamv1alpha1.VisibilityPlatform))
	v6 := gen.Family(ipamv1alpha1.IPv6)
	s.networks = gen.Pool("networks", gen.CIDR("2001:db8::/44"), gen.Backs("network"), gen.Visible(ipamv1alpha1.VisibilityPlatform))
	// On a slow machine, a fault leaves so many blocks to the sweep that its brake would hold in a pool of few blocks.
	s.pool.Annotations = map[string]string{sweep.AnnotationAllow: time.Now().Add(2 * time.Hour).Format(time.RFC3339)}
	s.networks.Annotations = s.pool.Annotations
	framework.Create(t, s.platform, gen.Class("chaos"), s.pool, s.networks,
		gen.Class("network", v6, gen.DefaultLength(48), gen.PoolPer("network", "project")),
		gen.Class("interface", v6, gen.DefaultLength(64), gen.Below("network")),
	)
	s.history = follow(t)
	for i := range customers {
		c := &customer{
			tenant: s.platform.Tenant(t), platform: s.platform.Path,
			random: rand.New(rand.NewPCG(seed, uint64(i))), //nolint:gosec // it has to be repeatable
			leaves: i == 0, has: map[string]bool{},
		}
		s.customers = append(s.customers, c)
		s.history.Include(c.tenant.Cluster.String())
	}
	return s
}

// run keeps the tenants at work while faults come and go.
func (s *site) run(seed uint64) {
	working, done := context.WithCancel(s.Context())
	defer done()
	var group errgroup.Group
	for _, c := range s.customers {
		group.Go(func() error { return c.run(working, s.Context()) })
	}
	s.strike(rand.New(rand.NewPCG(seed, customers))) //nolint:gosec // it has to be repeatable
	done()
	must.Do(s, group.Wait())
}

// settles waits until every claim is bound, the pool's figures are exact and the verifier finds nothing. It returns a
// claim that was bound after all others.
func (s *site) settles() *ipamv1alpha1.IPClaim {
	s.Helper()
	sum := new(big.Int)
	for _, c := range s.customers {
		claims := &ipamv1alpha1.IPClaimList{}
		must.Do(s, c.tenant.List(s.Context(), claims))
		if len(claims.Items) != len(c.has) {
			s.Errorf("tenant %s has %d claims, and has made %d", c.tenant.Path, len(claims.Items), len(c.has))
		}
		for i := range claims.Items {
			framework.WaitBound(s, c.tenant, &claims.Items[i])
			if claims.Items[i].Spec.ClassName == "chaos" {
				sum.Add(sum, size(&claims.Items[i]))
			}
		}
	}
	last := gen.Claim("last", gen.OfClass("chaos"), gen.Length(30))
	framework.Bind(s, s.customers[0].tenant, last)
	sum.Add(sum, size(last))
	want := ipamv1alpha1.PoolCapacity{Total: "256", Allocated: sum.String(), Available: new(big.Int).Sub(big.NewInt(256), sum).String()}
	// A CREATE that was answered, and then lost with kcp, keeps its block for a while.
	framework.Within(s, createGrace+framework.Patience, "the pool's figures to be exact", func(ctx context.Context) error {
		if err := s.platform.Get(ctx, client.ObjectKeyFromObject(s.pool), s.pool); err != nil {
			return err
		}
		if got := s.pool.Status.Capacity; got == nil || *got != want {
			return fmt.Errorf("its capacity is %+v, want %+v", got, want)
		}
		return nil
	})
	s.platform.WaitVerified(s, s.verify...)
	return last
}

// empties deletes all claims, those for ranges last, and then the pools. It waits until the ledger has nothing left
// of them.
func (s *site) empties(last *ipamv1alpha1.IPClaim) {
	s.Helper()
	framework.Delete(s, s.customers[0].tenant, last)
	for _, c := range s.customers {
		for _, name := range slices.Sorted(maps.Keys(c.has)) {
			if err := c.remove(s.Context(), name); err != nil {
				s.Fatalf("tenant %s: %v", c.tenant.Path, err)
			}
		}
	}
	for _, pool := range []*ipamv1alpha1.IPPool{s.pool, s.networks} {
		framework.Eventually(s, "the pool to be deleted", func(ctx context.Context) error {
			return client.IgnoreNotFound(s.platform.Delete(ctx, pool)) // once it shows that no part of it is in use
		})
	}
	ledger := must.Get(etcd.Dial(s.store.Addrs()...))(s)
	defer ledger.Close()
	framework.Eventually(s, "the ledger to be empty", func(ctx context.Context) error {
		for _, kind := range []string{"claims", "pools", "spaces"} {
			left, err := ledger.Get(ctx, "/ipam/v1/"+kind+"/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
			if err != nil {
				return err
			}
			if left.Count > 0 {
				return fmt.Errorf("it has %d keys of %s, the first is %s", left.Count, kind, left.Kvs[0].Key)
			}
		}
		return nil
	})
}

// size returns how many addresses a claim has.
func size(claim *ipamv1alpha1.IPClaim) *big.Int {
	return new(big.Int).Lsh(big.NewInt(1), uint(32-claim.Spec.PrefixLength)) //nolint:gosec // at most 32
}
