package pool

import (
	"maps"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kcp-ipam/ipam/allocator/index"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/internal/forecast"
	"github.com/kcp-ipam/ipam/test/must"
)

func gathered(t *testing.T, f *figures) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(f)
	families := must.Get(registry.Gather())(t)
	values := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			series := []string{f.GetName()}
			for _, label := range m.GetLabel() {
				series = append(series, label.GetValue())
			}
			values[strings.Join(series, " ")] = m.GetGauge().GetValue()
		}
	}
	return values
}

func TestFigures_ShowAPoolUntilItIsHidden(t *testing.T) {
	f := &figures{now: func() time.Time { return time.Unix(8*24*3600, 0) }}
	holds := figure{
		Capacity: ledger.Capacity{Total: big.NewInt(256), Allocated: big.NewInt(64), Available: big.NewInt(192), Blocks: 4, LargestFree: 25},
		free:     index.Histogram{25: 1, 27: 2},
		samples:  forecast.Samples{{At: time.Unix(0, 0), Used: big.NewInt(32)}, {At: time.Unix(7*24*3600, 0), Used: big.NewInt(64)}},
	}
	f.show("lab", holds)
	want := map[string]float64{
		"ipam_pool_addresses lab":                  256,
		"ipam_pool_allocated_addresses lab":        64,
		"ipam_pool_blocks lab":                     4,
		"ipam_pool_free_blocks lab 25":             1,
		"ipam_pool_free_blocks lab 27":             2,
		"ipam_pool_largest_free_prefix_length lab": 25,
		"ipam_pool_full_seconds lab week":          6 * 7 * 24 * 3600,
	}
	if got := gathered(t, f); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	v6 := new(big.Int).Lsh(big.NewInt(1), 88)
	f.show("lab", figure{Capacity: ledger.Capacity{Total: v6, Allocated: v6, Available: new(big.Int), Blocks: 5, LargestFree: -1}})
	want = map[string]float64{
		"ipam_pool_addresses lab":           0x1p88,
		"ipam_pool_allocated_addresses lab": 0x1p88,
		"ipam_pool_blocks lab":              5,
	}
	if got := gathered(t, f); !maps.Equal(got, want) {
		t.Errorf("full: got %v, want %v", got, want)
	}
	f.hide("lab")
	if got := gathered(t, f); len(got) != 0 {
		t.Errorf("a pool that is gone is still shown: %v", got)
	}
}
