package allocator

import (
	"maps"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/prometheus/client_golang/prometheus"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

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
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:1"}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
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
