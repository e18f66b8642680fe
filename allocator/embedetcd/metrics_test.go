package embedetcd

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kcp-ipam/ipam/test/must"
)

func TestMetrics_CollectsOnlyThoseOfEtcd(t *testing.T) {
	put(t, mustStart(t, t.TempDir()), "key", "value")
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(Metrics())
	families := must.Get(registry.Gather())(t)
	samples := map[string]uint64{}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "etcd_") {
			t.Errorf("%s is none of etcd's", f.GetName())
		}
		samples[f.GetName()] = f.GetMetric()[0].GetHistogram().GetSampleCount()
	}
	for _, name := range []string{"etcd_disk_wal_fsync_duration_seconds", "etcd_disk_backend_commit_duration_seconds"} {
		if samples[name] == 0 {
			t.Errorf("%s has no samples", name)
		}
	}
}
