package allocator

import (
	"testing"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
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

func TestMetrics_CountCallsAndWaitingClaims(t *testing.T) {
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

// A bind whose transaction was not sent is tried again, and counts as two attempts.
func TestMetrics_CountTheAttemptsOfABind(t *testing.T) {
	l := withPool(t, "10.0.0.0/24")
	l.swap(func(h *engine.Hooks) { h.BeforeCommit = once(errLost) })
	l.bind(request("p", "c", 26))
	var got dto.Metric
	must.Do(t, l.engine.Metrics.Attempts.Write(&got))
	if h := got.GetHistogram(); h.GetSampleCount() != 1 || h.GetSampleSum() != 2 {
		t.Errorf("%d binds took part in %v transactions, want 1 in 2", h.GetSampleCount(), h.GetSampleSum())
	}
}
