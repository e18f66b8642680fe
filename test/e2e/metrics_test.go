package e2e

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// The metrics show a pool of the platform, and its free addresses, until the pool is gone.
func TestMetrics_ShowAPoolUntilItIsGone(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class()
	pool := s.pool(s.cidr)
	claim := s.holds("c", gen.Length(18))
	series := `{pool="` + pool.Name + `"`
	for _, length := range []string{"17", "18"} { // a /18 leaves one of each in a /16
		s.platform.WaitMetric(t, "ipam_pool_free_blocks"+series+`,prefix_length="`+length+`"} `, "1")
	}
	if s.platform.Metric(t, "etcd_disk_wal_fsync_duration_seconds_count ") == "" || s.platform.Metric(t, `ipam_etcd_up{endpoint="embedded"} `) != "1" {
		t.Error("the embedded etcd is not in the metrics")
	}
	framework.Delete(t, s.tenant, claim)
	framework.WaitGone(t, s.tenant, claim)
	framework.Eventually(t, "the pool to be deleted", func(ctx context.Context) error { return s.platform.Delete(ctx, gen.Pool(pool.Name)) })
	framework.WaitGone(t, s.platform, pool)
	framework.Eventually(t, "the pool to be out of the metrics", func(context.Context) error {
		if strings.Contains(s.platform.Metrics(t), series) {
			return errors.New("it is there")
		}
		return nil
	})
}
