package pool

import (
	"context"
	"fmt"
	"math/big"
	"net/netip"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/controllers/internal/resolve"
	"github.com/kcp-ipam/ipam/controllers/internal/views"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

func capacity(total, allocated string, largest int) ledger.Capacity {
	c := ledger.Capacity{Total: new(big.Int), Allocated: new(big.Int), Available: new(big.Int), LargestFree: largest}
	c.Total.SetString(total, 10)
	c.Allocated.SetString(allocated, 10)
	c.Available.Sub(c.Total, c.Allocated)
	return c
}

func TestSucceeded_SetsPhaseAndFigures(t *testing.T) {
	for _, tt := range []struct {
		name      string
		cidr      string
		capacity  ledger.Capacity
		phase     ipamv1alpha1.PoolPhase
		available string
		percent   float64
	}{
		{"empty", "10.0.0.0/24", capacity("256", "0", 24), ipamv1alpha1.PoolReady, "256", 0},
		{"a third", "10.0.0.0/24", capacity("300", "100", 25), ipamv1alpha1.PoolReady, "200", 33.3333},
		{"full", "10.0.0.0/24", capacity("256", "256", -1), ipamv1alpha1.PoolExhausted, "0", 100},
		{"all of IPv6 but one", "::/0", capacity("340282366920938463463374607431768211456", "340282366920938463463374607431768211455", 128),
			ipamv1alpha1.PoolReady, "1", 100},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pool := gen.Pool("p")
			succeeded(pool, ledger.Pool{CIDR: netip.MustParsePrefix(tt.cidr)}, tt.capacity, "", nil)
			status := pool.Status
			if status.Phase != tt.phase || status.Capacity.Available != tt.available || *status.UtilizationPercent != tt.percent {
				t.Errorf("phase %s, available %s, %v %%; want %s, %s, %v %%",
					status.Phase, status.Capacity.Available, *status.UtilizationPercent, tt.phase, tt.available, tt.percent)
			}
			if (status.LargestFreePrefix == nil) != (tt.capacity.LargestFree < 0) {
				t.Errorf("largestFreePrefix = %v", status.LargestFreePrefix)
			}
		})
	}
}

func TestRefused_KeepsTheCIDROfAPoolThatHasOne(t *testing.T) {
	pool := gen.Pool("p")
	succeeded(pool, ledger.Pool{CIDR: netip.MustParsePrefix("10.0.0.0/24")}, capacity("256", "0", 24), "", nil)
	refused(pool, &outcome.Refusal{Reason: ipamv1alpha1.ReasonError, Message: "etcd is away"})
	if pool.Status.Phase != ipamv1alpha1.PoolReady || pool.Status.AllocatedCIDR != "10.0.0.0/24" || !resolve.Ready(pool) {
		t.Errorf("status = %+v", pool.Status)
	}
	if meta.IsStatusConditionTrue(pool.Status.Conditions, ipamv1alpha1.ConditionReady) {
		t.Error("the failure does not show")
	}
}

func TestCounted_NamesTheHolders(t *testing.T) {
	for _, tt := range []struct {
		own   []ledger.Block
		total int
		want  string
	}{
		{nil, 1, "the pool holds 1 block"},
		{[]ledger.Block{{Holder: ledger.Holder{Namespace: "a", Name: "b"}}, {Holder: ledger.Holder{Name: "child"}}}, 2, "the pool holds 2 blocks, of claim a/b, pool child"},
		{[]ledger.Block{{Holder: ledger.Holder{Namespace: "a", Name: "b"}}}, 7, "the pool holds 7 blocks, of claim a/b and 6 others"},
		{[]ledger.Block{{Holder: ledger.Holder{Namespace: "default", Name: "web"}, State: ledger.Retained}}, 1,
			"the pool holds 1 block, of IPAllocation default/" + ipamv1alpha1.AllocationName("default", "web") + ", retained from claim web"},
	} {
		var names []string
		for _, b := range tt.own {
			names = append(names, holderName(b))
		}
		if got := counted(names, tt.total); got != tt.want {
			t.Errorf("counted = %q, want %q", got, tt.want)
		}
	}
}

// A CREATE that fails after its answer leaves a block without a claim for up to two minutes. Once the claim should have
// been stored, the status of the pool names the claim, and says when the block is free.
func TestUsage_NamesClaimsThatWereNotStored(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	answers, holder := promise.NewAnswers(clock.RealClock{}, func(ledger.Holder) {}), func(name string) ledger.Holder {
		return ledger.Holder{Claim: promise.NewID("w", "default", name), Cluster: "w", Namespace: "default", Name: name}
	}
	answered, stored := ledger.Block{Holder: holder("web"), BoundAt: at}, ledger.Block{Holder: holder("db"), BoundAt: at}
	for _, b := range []ledger.Block{answered, stored} {
		must.Do(t, answers.Begin(b.Holder))
	}
	answers.Stored(stored.Holder)
	for _, tt := range []struct {
		block ledger.Block
		after time.Duration
		want  string
		again time.Duration
	}{
		{answered, time.Second, "claim default/web", 9 * time.Second},
		{answered, 10 * time.Second, "claim default/web (answered, not stored yet: free by 12:02:00)", 110 * time.Second},
		{answered, 3 * time.Minute, "claim default/web (answered, not stored yet: free by 12:02:00)", 10 * time.Second},
		{stored, time.Minute, "claim default/db", 0},
	} {
		p := &pass{}
		u := usage{now: at.Add(tt.after), answers: answers, again: p.lookAgain}
		if got := u.name(tt.block); got.words != tt.want || got.unstored != strings.Contains(tt.want, "not stored") || p.due != tt.again {
			t.Errorf("after %s the holder is %+v, and the next look in %s; want %q and %s", tt.after, got, p.due, tt.want, tt.again)
		}
	}
}

// gatewayLedger has these blocks in each pool.
type gatewayLedger struct {
	views.Pools
	blocks []ledger.Block
}

func (l gatewayLedger) Overlapping(context.Context, ledger.PoolID, netip.Prefix) ([]ledger.Block, error) {
	return l.blocks, nil
}

// If a gateway was moved to an address in use, the status names the gateway, and its holder if that is of the same
// workspace. It also names a gateway that no interface could use. A child pool can have such a gateway, because its
// block was not known when the gateway was written.
func TestGateway_IsNamedWithItsHolder(t *testing.T) {
	const id, parent = ledger.PoolID("pool"), ledger.PoolID("parent")
	carved := ledger.Block{Pool: parent, Prefix: netip.MustParsePrefix("192.0.2.0/28"), Holder: ledger.Holder{Cluster: "own", Name: "child"}}
	block := func(cluster ledger.ClusterName, state ledger.BlockState) []ledger.Block {
		return []ledger.Block{carved, {
			Pool: id, Prefix: netip.MustParsePrefix("192.0.2.2/32"), State: state,
			Holder: ledger.Holder{Cluster: cluster, Namespace: "default", Name: "web"},
		}}
	}
	for what, tt := range map[string]struct {
		gateway string
		blocks  []ledger.Block
		want    string
	}{
		"held here":         {"192.0.2.2", block("own", ledger.Bound), "spec.gateway 192.0.2.2 lies in 192.0.2.2/32, which claim default/web holds"},
		"held elsewhere":    {"192.0.2.2", block("other", ledger.Bound), "which another workspace holds"},
		"cooling":           {"192.0.2.2", block("own", ledger.Cooling), ""},
		"free":              {"192.0.2.2", []ledger.Block{carved}, ""},
		"of another family": {"2001:db8::1", nil, "is not in the network of the pool, 192.0.2.0/28"},
		"off the link":      {"198.51.100.1", nil, "is not in the network of the pool, 192.0.2.0/28"},
		"none":              {"", block("own", ledger.Bound), ""},
	} {
		u := usage{ledger: views.Ledger{Pools: gatewayLedger{blocks: tt.blocks}}, id: id, workspace: "own"}
		got, err := u.gateway(t.Context(), gen.Pool("p", gen.Gateway(tt.gateway, 0)), ledger.Pool{CIDR: netip.MustParsePrefix("192.0.2.0/28")}, ledger.Capacity{Stranded: 1})
		if err != nil || (tt.want == "") != (got == "") || !strings.Contains(got, tt.want) {
			t.Errorf("a gateway that is %s: %q, %v; want %q", what, got, err, tt.want)
		}
	}
}

// A sample is written when the number of used addresses has changed, but at most once an hour. If it is too early, the
// pool is requeued.
func TestSample_WritesAtMostOncePerHour(t *testing.T) {
	born := time.Unix(1_000_000, 0)
	hours := func(n float64) time.Time { return born.Add(time.Duration(n * float64(time.Hour))) }
	five := fmt.Sprintf("%d=5", hours(2).Unix())
	for name, tt := range map[string]struct {
		has  string
		hour float64
		used string
		want string
		due  time.Duration
	}{
		"while the pool is young":  {"", 0.5, "5", "", 30 * time.Minute},
		"the first":                {"", 2, "5", five, 0},
		"nothing has changed":      {five, 100, "5", five, 0},
		"within the hour":          {five, 2.25, "6", five, 45 * time.Minute},
		"an hour later":            {five, 3, "6", five + fmt.Sprintf(" %d=6", hours(3).Unix()), 0},
		"what somebody has edited": {"many", 2, "5", five, 0},
	} {
		t.Run(name, func(t *testing.T) {
			pool := gen.Pool("p")
			pool.CreationTimestamp = metav1.NewTime(born)
			if tt.has != "" {
				pool.Annotations = map[string]string{ipamv1alpha1.AnnotationUsage: tt.has}
			}
			p := &pass{Reconciler: &Reconciler{now: func() time.Time { return hours(tt.hour) }}, pool: pool}
			p.sample(t.Context(), capacity("256", tt.used, 25))
			if got := pool.Annotations[ipamv1alpha1.AnnotationUsage]; got != tt.want || p.samples.String() != tt.want || p.due != tt.due {
				t.Errorf("the annotation is %q, the samples %q, the next due in %s; want %q and %s", got, p.samples, p.due, tt.want, tt.due)
			}
		})
	}
}
