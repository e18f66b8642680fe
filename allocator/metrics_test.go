package allocator

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

func gathered(t *testing.T, r *prometheus.Registry) map[string]float64 {
	t.Helper()
	families := must.Get(r.Gather())(t)
	values := map[string]float64{}
	for _, f := range families {
		m := f.GetMetric()[0]
		values[f.GetName()] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
	}
	return values
}

func TestMetrics(t *testing.T) {
	r := prometheus.NewRegistry()
	l := newLedger(t, func(o *Options) { o.Registerer = r })
	l.pool("p", "10.0.0.0/24")
	l.bind(request("p", "c", 26))
	l.bind(request("p", "d", 26))
	l.free("c")
	l.Waits().Add(request("p", "w", 24))
	l.waitIdle(t)
	got := gathered(t, r)
	for name, want := range map[string]float64{
		"ipam_ledger_transaction_seconds":   4,
		"ipam_ledger_group_requests":        4,
		"ipam_ledger_bind_attempts":         2,
		"ipam_ledger_queued_requests":       0,
		"ipam_ledger_waiting_claims":        1,
		"ipam_ledger_conflicts_total":       0,
		"ipam_ledger_blocks_bound_total":    2,
		"ipam_ledger_blocks_released_total": 1,
		"ipam_etcd_up":                      1,
		"ipam_etcd_errors":                  0,
	} {
		if value, ok := got[name]; !ok || value != want {
			t.Errorf("%s is %v, want %v", name, value, want)
		}
	}
	if _, err := Open(t.Context(), l.etcd.Client(), Options{Registerer: r}); err == nil {
		t.Error("two allocators share one registry")
	}
	if len(gathered(t, r)) != len(got) {
		t.Error("the second has taken the metrics of the first away")
	}
	if err := l.Close(); err != nil || len(gathered(t, r)) != 0 {
		t.Error("metrics are left behind", err)
	}
}

// A bind that another writer comes before is tried again, and says so.
func TestMetrics_AttemptsOfABind(t *testing.T) {
	l, other := both(t, "10.0.0.0/24")
	l.swap(func(h *engine.Hooks) {
		h.BeforeCommit = first(func() { other.bind(request("p", "d", 26)) })
	})
	l.bind(request("p", "c", 26))
	var got dto.Metric
	must.Do(t, l.engine.Metrics.Attempts.Write(&got))
	if h := got.GetHistogram(); h.GetSampleCount() != 1 || h.GetSampleSum() != 2 {
		t.Errorf("%d binds took part in %v transactions, want 1 in 2", h.GetSampleCount(), h.GetSampleSum())
	}
}

// Two Allocators have one client. One asks etcd all the time how far its watch is, while that of the other one begins again. The answers
// are not taken for those of the other watch, which would skip the pools that it has not brought yet.
func TestWatch_SkipsNothingBesideAnother(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	behind, watch := l.behind()
	ctx, cancel := context.WithCancel(t.Context())
	var asks sync.WaitGroup
	defer asks.Wait()
	defer cancel()
	for range 2 {
		asks.Go(func() {
			for ctx.Err() == nil {
				_ = l.engine.Watched.RequestProgress(ctx)
			}
		})
	}
	for i := range 8 {
		watch.set(true)
		id := ledger.PoolID(fmt.Sprint("p", i))
		l.pool(id, fmt.Sprintf("10.%d.0.0/24", i))
		watch.set(false)
		behind.catchUp(t)
		if _, known := behind.Pools().Get(id); !known {
			t.Errorf("memory is as of revision %d, and lacks pool %s", behind.Revision(), id)
		}
	}
}
