//go:build long

package e2e

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// footprint is the memory, files and goroutines of the controller, by metric. "series" is the number of metrics.
type footprint map[string]float64

// growth is how much each metric may grow: by a share, plus a constant. The next garbage collection is due at twice
// the live heap.
var growth = map[string]struct{ share, slack float64 }{
	"go_goroutines":                           {0.10, 30},
	"go_memstats_next_gc_bytes":               {0.25, 8 << 20},
	"process_open_fds":                        {0.10, 32}, // kcp keeps the connections of a burst of CREATEs for 90 s
	"etcd_mvcc_db_total_size_in_use_in_bytes": {0.25, 8 << 20},
	"series": {0.10, 50},
}

// Claims that come and go leave nothing behind in the controller.
func TestLong_ChurnLeavesNothing(t *testing.T) {
	const rounds, claims = 8, 150
	platform := framework.NewPlatform(t)
	platform.StartController(t)
	framework.Create(t, platform, gen.Class("churn"), platformPool("churn", platform.CIDR(t), "churn"))
	tenant := platform.Tenant(t)
	serves(t, tenant, gen.OfClass("churn"))
	churn := func() {
		var group errgroup.Group
		group.SetLimit(8)
		for i := range claims {
			group.Go(func() error {
				return tenant.Create(t.Context(), gen.Claim(fmt.Sprint("c", i), gen.OfClass("churn"), gen.Length(32)))
			})
		}
		if err := group.Wait(); err != nil {
			t.Fatalf("create %d claims: %v", claims, err)
		}
		for i := range claims {
			claim := gen.Claim(fmt.Sprint("c", i))
			framework.WaitBound(t, tenant, claim)
			framework.Delete(t, tenant, claim)
		}
		framework.Eventually(t, "all records to be gone", func(ctx context.Context) error {
			records := &ipamv1alpha1.IPAllocationList{}
			if err := tenant.List(ctx, records); err != nil {
				return err
			}
			if len(records.Items) > 0 {
				return fmt.Errorf("there are %d", len(records.Items))
			}
			return nil
		})
	}
	churn()
	churn()
	before := measure(t, platform)
	for range rounds {
		churn()
	}
	framework.Eventually(t, "the controller to use what it used before", func(context.Context) error {
		after := measure(t, platform)
		for name, may := range growth {
			if most := before[name]*(1+may.share) + may.slack; after[name] > most {
				return fmt.Errorf("%s was %.0f and is %.0f, want at most %.0f", name, before[name], after[name], most)
			}
		}
		return nil
	})
	t.Logf("before %v, after %v", before, measure(t, platform))
}

// measure reads the footprint of the controller.
func measure(t *testing.T, platform *framework.Platform) footprint {
	t.Helper()
	seen := footprint{}
	for line := range strings.Lines(platform.Metrics(t)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		seen["series"]++
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if _, asked := growth[name]; !asked {
			continue
		}
		number, err := strconv.ParseFloat(value, 64)
		if err != nil {
			t.Fatalf("the metric %s is %q: %v", name, value, err)
		}
		seen[name] = number
	}
	for name := range growth {
		if _, found := seen[name]; !found {
			t.Fatalf("the controller has no metric %s", name)
		}
	}
	return seen
}
