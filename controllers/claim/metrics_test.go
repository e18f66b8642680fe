package claim

import (
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/inbox"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// gathered returns the value, or the number of samples, of each "metric label".
func gathered(t *testing.T, collectors ...prometheus.Collector) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collectors...)
	families := must.Get(registry.Gather())(t)
	values := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			values[f.GetName()+" "+m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return values
}

func requestIn(cluster multicluster.ClusterName, name string) mcreconcile.Request {
	return inbox.Request(cluster, client.ObjectKey{Namespace: "default", Name: name})
}

func TestLacks_CountsClaimsByReason(t *testing.T) {
	at := func(second int64) time.Time { return time.Unix(second, 0) }
	l := &lacks{}
	l.note(requestIn("a", "x"), ipamv1alpha1.ReasonPoolExhausted, at(20))
	l.note(requestIn("a", "y"), ipamv1alpha1.ReasonPoolExhausted, at(10))
	l.note(requestIn("b", "x"), ipamv1alpha1.ReasonPoolExhausted, at(5))
	l.note(requestIn("b", "z"), ipamv1alpha1.ReasonError, at(30))
	l.note(requestIn("b", "z"), ipamv1alpha1.ReasonClassNotFound, at(40)) // it waits since 30
	l.note(requestIn("c", "gone"), ipamv1alpha1.ReasonError, at(1))
	l.remove(requestIn("c", "gone"))
	want := map[string]float64{
		"ipam_unmet_claims PoolExhausted":                          3,
		"ipam_unmet_claims ClassNotFound":                          1,
		"ipam_unmet_claims_oldest_timestamp_seconds PoolExhausted": 5,
		"ipam_unmet_claims_oldest_timestamp_seconds ClassNotFound": 30,
	}
	if got := gathered(t, l); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	l.leave("b")
	want = map[string]float64{
		"ipam_unmet_claims PoolExhausted":                          2,
		"ipam_unmet_claims_oldest_timestamp_seconds PoolExhausted": 10,
	}
	if got := gathered(t, l); !maps.Equal(got, want) {
		t.Errorf("without the workspace that left: %v, want %v", got, want)
	}
}

func TestMeasure_ShowsHowAPassHasEnded(t *testing.T) {
	made := time.Unix(100, 0)
	for _, tt := range []struct {
		name   string
		report report
		cidr   string
		err    error
		result string
		unmet  bool // counted since the claim was made
	}{
		{name: "bound", report: report{bound: true}, result: resultBound},
		{name: "nothing to do"},
		{name: "refused", report: report{reason: ipamv1alpha1.ReasonPoolExhausted}, result: resultRefused, unmet: true},
		{name: "refused, and not written", report: report{reason: ipamv1alpha1.ReasonPoolExhausted}, err: errors.New("conflict"), unmet: true},
		{name: "failed", report: report{reason: ipamv1alpha1.ReasonError}, err: errors.New("etcd"), result: resultFailed, unmet: true},
		{name: "bound, and not written", report: report{bound: true}, err: errors.New("conflict")},
		{name: "bound before, and failed", report: report{reason: ipamv1alpha1.ReasonError}, cidr: "10.0.0.0/28", err: errors.New("etcd"), result: resultFailed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			durations.Reset()
			r := tt.report
			r.request, r.claim = requestIn("w", tt.name), gen.Claim("c")
			r.claim.CreationTimestamp = metav1.NewTime(made)
			r.claim.Status.AllocatedCIDR = tt.cidr
			t.Cleanup(func() { unmet.remove(r.request) })
			r.measure(time.Now(), tt.err)
			timed := gathered(t, durations)
			if len(timed) > 1 || (tt.result != "") != (timed["ipam_allocation_duration_seconds "+tt.result] == 1) {
				t.Errorf("timed %v, want one result %q", timed, tt.result)
			}
			oldest := gathered(t, unmet)["ipam_unmet_claims_oldest_timestamp_seconds "+string(r.reason)]
			if tt.unmet != (oldest == 100) {
				t.Errorf("unmet since %v", oldest)
			}
		})
	}
}
