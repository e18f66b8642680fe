package allocator

import (
	"maps"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/prometheus/client_golang/prometheus"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// The address of the process that leads is in the ledger.
func TestLeader_IsInTheLedger(t *testing.T) {
	l := newLedger(t)
	reader := Reader{Client: l.etcd.Client()}
	wantAt := func(want string) {
		t.Helper()
		if at, err := reader.Leader(t.Context()); err != nil || at != want {
			t.Errorf("the leader is at %q, %v; want %q", at, err, want)
		}
	}
	wantAt("")
	l.open(func(o *Options) { o.Leads, o.Address = true, "10.0.0.1:9443" })
	wantAt("10.0.0.1:9443")
	l.open(func(o *Options) { o.Leads, o.Address = true, "10.0.0.2:9443" })
	wantAt("10.0.0.2:9443")
	l.put("head", "{")
	if at, err := reader.Leader(t.Context()); !ledger.Unreadable(err) {
		t.Errorf("the leader is at %q, %v; want an error that names the key", at, err)
	}
}

// A claim that waits, for a taken address or a length that does not fit, keeps no Allocator from reserving free room.
func TestReserve_TakesRoomAWaiterCannotUse(t *testing.T) {
	l := withPool(t, "10.0.0.0/24")
	other := l.open()
	taken := request("p", "taken", 28)
	taken.Exact = l.bind(request("p", "holds", 28)).Prefix
	l.Waits().Add(taken)
	l.Waits().Add(request("p", "large", 24))
	other.catchUp(t)
	for name, a := range map[string]*Allocator{"leader": l.Allocator, "standby": other} {
		if _, err := a.Reservations().Reserve(t.Context(), reservation(name, 28)); err != nil {
			t.Errorf("Reserve by the %s = %v, want a block", name, err)
		}
	}
	other.catchUp(t)
	l.sameAsLedger(other)
}

// What former versions of this program put beside today's keys means nothing, and is not damaged.
func TestLead_IgnoresFormerKeys(t *testing.T) {
	l := withPool(t, "10.0.0.0/24")
	for _, key := range []string{"spaces/p/waiters", "turns/p", "turns/gone"} {
		l.put(key, `{"v":9}`)
	}
	other := l.open()
	for name, a := range map[string]*Allocator{"open": l.Allocator, "opened": other} {
		if _, err := a.Reservations().Reserve(t.Context(), reservation(name, 28)); err != nil {
			t.Errorf("Reserve by the one that was %s = %v, want a block", name, err)
		}
	}
	damaged := func(key string, err error) { t.Errorf("%s cannot be read: %v", key, err) }
	if _, err := (Reader{Client: l.etcd.Client()}).Walk(t.Context(), ledger.Visitor{
		Pool: func(ledger.Pool) {}, Block: func(ledger.Block) {}, Head: func(ledger.SpaceID) {}, Claim: func(ledger.ClaimID, ledger.SpaceID, netip.Prefix) {}, Tenure: func(ledger.Tenure) {}, Damaged: damaged, Unread: func(ledger.SpaceID, netip.Prefix) {},
	}); err != nil {
		t.Errorf("Walk = %v", err)
	}
	l.sameAsLedger(other)
}

// An Allocator that etcd has refused once is healthy again when etcd takes transactions, though it has none to send.
func TestHealthy_AgainWithoutAnotherTransaction(t *testing.T) {
	t.Parallel()
	l := withPool(t, "10.0.0.0/24")
	l.swap(func(h *engine.Hooks) { h.BeforeCommit = once(rpctypes.ErrTooManyRequests) })
	must.Fail(l.Bind(t.Context(), request("p", "c", 26)))(t, ledger.ErrUnavailable)
	if l.Healthy() == nil {
		t.Error("healthy right after etcd has refused a transaction")
	}
	for l.Healthy() != nil && t.Context().Err() == nil {
		runtime.Gosched() // the next probe
	}
}

// A bind that was planned with a former block, and does not get it, begins its tenure when it is bound.
func TestBind_WithoutTheFormerBlockThatWasPlanned(t *testing.T) {
	l := newLedger(t, func(o *Options) {
		o.History, o.Cooldown = time.Hour, func(ledger.Block) (time.Duration, error) { return time.Hour, nil }
	})
	l.pool("p", "10.0.0.0/24")
	other := l.another()
	l.bind(request("p", "c", 28))
	l.free("c")
	l.swap(func(h *engine.Hooks) {
		h.BeforeCommit = first(func() { other.bind(named("other", "c", 28)) }) // gets the former block
	})
	if b := l.bind(named("late", "c", 28)); !b.Since.IsZero() {
		t.Errorf("the tenure of %s begins at %s, want at the bind", b.Prefix, b.Since)
	}
}

// Preview changes nothing: a claim that room is held for keeps its place and its room.
func TestPreview_OfAClaimThatRoomIsHeldFor(t *testing.T) {
	l := withPool(t, "10.0.0.0/28")
	full := l.bind(request("p", "full", 28))
	l.Waits().Add(request("p", "waits", 28))
	l.free("full")
	for range 2 {
		if got, err := l.Reservations().Preview(t.Context(), request("p", "waits", 28)); err != nil || got != full.Prefix {
			t.Errorf("Preview = %s, %v; want %s, which is held", got, err, full.Prefix)
		}
	}
	failsAs[*ledger.ExhaustedError](l.Bind(t.Context(), request("p", "newcomer", 28)))(t)
	l.bind(request("p", "waits", 28))
}

func TestMembers(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	l := newLedger(t, func(o *Options) { o.Registerer = r })
	got := gathered(t, r)
	if got["ipam_etcd_up"] != 1 || got["ipam_etcd_errors"] != 0 {
		t.Error("the member is not well:", got)
	}
	inUse, size, quota := got["ipam_etcd_db_in_use_bytes"], got["ipam_etcd_db_size_bytes"], got["ipam_etcd_db_quota_bytes"]
	if inUse <= 0 || size < inUse || quota < size {
		t.Errorf("%v bytes are in use of %v of at most %v", inUse, size, quota)
	}
	l.waitIdle(t)
}

// A member that is away is down, whatever else it was.
func TestMembers_Away(t *testing.T) {
	t.Parallel()
	client := must.Get(clientv3.New(clientv3.Config{Endpoints: []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:1"}, Logger: zap.NewNop()}))(t)
	defer client.Close()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(store.Members{Client: client})
	families, err := r.Gather()
	if err != nil || len(families) != 1 {
		t.Fatalf("Gather = %v, %v; want one family", families, err)
	}
	down := map[string]float64{}
	for _, m := range families[0].GetMetric() {
		down[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
	}
	if want := map[string]float64{"127.0.0.1:1": 0, "127.0.0.1:2": 0}; !maps.Equal(down, want) {
		t.Errorf("up are %v, want %v", down, want)
	}
}
