package pool

import (
	"maps"
	"math/big"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kcp-ipam/ipam/allocator"
)

func gathered(t *testing.T) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(addresses, allocated, blocks, largestFree)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			values[f.GetName()+" "+m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
		}
	}
	return values
}

func TestShow(t *testing.T) {
	t.Cleanup(func() { hide("lab") })
	show("lab", allocator.Capacity{Total: big.NewInt(256), Allocated: big.NewInt(64), Blocks: 4, LargestFree: 25})
	want := map[string]float64{
		"ipam_pool_addresses lab":                  256,
		"ipam_pool_allocated_addresses lab":        64,
		"ipam_pool_blocks lab":                     4,
		"ipam_pool_largest_free_prefix_length lab": 25,
	}
	if got := gathered(t); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	v6 := new(big.Int).Lsh(big.NewInt(1), 88)
	show("lab", allocator.Capacity{Total: v6, Allocated: v6, Blocks: 5, LargestFree: -1})
	want = map[string]float64{
		"ipam_pool_addresses lab":           0x1p88,
		"ipam_pool_allocated_addresses lab": 0x1p88,
		"ipam_pool_blocks lab":              5,
	}
	if got := gathered(t); !maps.Equal(got, want) {
		t.Errorf("full: got %v, want %v", got, want)
	}
	hide("lab")
	if got := gathered(t); len(got) != 0 {
		t.Errorf("a pool that is gone is still shown: %v", got)
	}
}
