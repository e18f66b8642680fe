//go:build long

package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator/embedetcd"
	"github.com/kcp-ipam/ipam/allocator/etcdtest"
	"github.com/kcp-ipam/ipam/test/framework"
)

// A kcp that was restored from an older copy knows nothing of newer claims and newer
// tenants. Their blocks stay, in a controller that ran on and in one that was started
// since, until an operator says that they may go. All other tests wait for this one.
func TestLong_RestoreOfAnOlderKCP(t *testing.T) {
	platform := framework.NewPlatform(t).Replica(t, "swept", sweeping...)
	platform.StartController(t)
	name, cidr := framework.Name(t), platform.CIDR(t)
	pool := offer(t, platform, name, cidr)
	tenant := platform.Tenant(t)
	known := bindSome(t, tenant, name, "known", 2)

	restore := framework.BackupKCP(t)
	// A round of the sweep may find those of one workspace before the others: the brake has to hold for each.
	newer := bindSome(t, tenant, name, "newer", 12)
	newer = append(newer, bindSome(t, platform.Tenant(t), name, "newcomer", 12)...)
	published := blocksOf(t, slices.Concat(known, newer)...)
	restore()

	platform.WaitSwept(t, 6)
	platform.StopController(t)
	showsInLedger(t, platform, published...)
	platform.StartController(t)
	waitBraked(t, platform, name, len(newer))
	platform.StopController(t)
	showsInLedger(t, platform, published...)

	platform.StartController(t)
	until := time.Now().Add(time.Hour).Format(time.RFC3339)
	framework.Eventually(t, "an operator to allow it", func(ctx context.Context) error {
		patch := fmt.Appendf(nil, `{"metadata": {"annotations": {"ipam.miloapis.com/allow-sweep-until": %q}}}`, until)
		return platform.Patch(ctx, pool, client.RawPatch("application/merge-patch+json", patch))
	})
	waitHeld(t, platform, pool, size(blocksOf(t, known...)...))
	framework.WaitBound(t, tenant, known...)

	restartShared(t)
}

// showsInLedger fails the test unless the ledger, read key by key while the controller
// does not run, has exactly these blocks.
func showsInLedger(t *testing.T, platform *framework.Platform, blocks ...netip.Prefix) {
	t.Helper()
	etcd := etcdtest.NewWith(t, embedetcd.Options{Dir: platform.LedgerDir()})
	defer etcd.Stop()
	var recorded []netip.Prefix
	for _, record := range etcdtest.CheckLedger(t, etcd.Client(), "/ipam/v1") {
		recorded = append(recorded, record.Prefix)
	}
	slices.SortFunc(recorded, netip.Prefix.Compare)
	slices.SortFunc(blocks, netip.Prefix.Compare)
	if !slices.Equal(recorded, blocks) {
		t.Errorf("the ledger has %v; published are %v", recorded, blocks)
	}
}

// waitBraked waits until a sweep has found so many orphans of a pool, and left them.
func waitBraked(t *testing.T, platform *framework.Platform, pool string, orphans int) {
	t.Helper()
	labels := fmt.Sprintf(`{cluster=%q,pool=%q} `, platform.Cluster, pool)
	platform.WaitMetric(t, "ipam_sweep_orphans"+labels, fmt.Sprint(orphans))
	platform.WaitMetric(t, "ipam_sweep_braked"+labels, "1")
}
