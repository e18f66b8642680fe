//go:build long

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator/embedetcd"
	"github.com/kcp-ipam/ipam/allocator/etcdtest"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/chaos/etcd"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// A kcp that was restored from an older copy knows no newer claims and tenants. Their blocks stay until an operator
// allows their release, both in a controller that ran on and in one that was started later. All other tests wait for
// this one.
func TestLong_RestoreOfAnOlderKCP(t *testing.T) {
	platform := framework.NewPlatform(t).Replica(t, "swept", sweeping...)
	platform.StartController(t)
	name, cidr := framework.Name(t), platform.CIDR(t)
	pool := offer(t, platform, name, cidr)
	tenant := platform.Tenant(t)
	known := bindSome(t, tenant, name, "known", 2)

	restore := framework.BackupKCP(t)
	// A round of the sweep may find the orphans of one workspace before those of the other: the brake has to hold for
	// each.
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

// showsInLedger fails the test unless the ledger has exactly these blocks. It is read key by key while the controller
// does not run.
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

// waitBraked waits until a sweep has found that many orphans of a pool, and left them.
func waitBraked(t *testing.T, platform *framework.Platform, pool string, orphans int) {
	t.Helper()
	labels := fmt.Sprintf(`{cluster=%q,pool=%q} `, platform.Cluster, pool)
	platform.WaitMetric(t, "ipam_sweep_orphans"+labels, fmt.Sprint(orphans))
	platform.WaitMetric(t, "ipam_sweep_braked"+labels, "1")
}

// A cluster of etcd is restored from a snapshot while no controller runs. Blocks that were given out since are not
// given out again.
func TestLong_AdoptRestoredCluster(t *testing.T) {
	t.Parallel()
	l, store := newLossyCluster(t)
	l.forgets(func() {
		l.platform.StopController(t)
		must.Do(t, store.Members[0].Stop())
	}, func() {
		must.Get(store.Members[0].Start())(t)
		must.Do(t, store.Ready(t.Context()))
	})
}

// forgets restores the etcd from a snapshot, between stop and start. All claims made since keep their blocks, even
// one that was made while the etcd was away.
func (l *lossy) forgets(stop, start func()) {
	l.Helper()
	before := l.holds("before", gen.Length(28))
	l.published(before)
	l.save()
	since := l.holds("since", gen.Length(28))
	l.published(before, since)

	stop()
	late := gen.Claim("late", gen.OfClass(l.name), gen.Length(28))
	framework.Create(l, l.tenant, late)
	must.Do(l, os.RemoveAll(l.dir))
	l.restore()
	start()
	l.platform.StartController(l)
	framework.WaitBound(l, l.tenant, late)
	disjointIn(l.T, l.cidr, l.blocks(before, since, late)...)
	l.kept(before, since)
	l.published(before, since, late)
}

// newLossyCluster returns a lossy whose controller uses a separate etcd, and that etcd.
func newLossyCluster(t *testing.T) (*lossy, *etcd.Cluster) {
	t.Helper()
	home := t.TempDir()
	store, err := etcd.New(t.Context(), etcd.Options{Dir: home})
	must.Ends(t, store.Close)
	if err != nil {
		t.Fatal(err)
	}
	member := store.Members[0]
	l := &lossy{dir: filepath.Join(home, member.Name), url: "http://" + member.Addr, member: member.Name, peer: peerOf(t, home, member)}
	l.start(t, "--etcd-servers="+l.url)
	return l, store
}

// peerOf returns the address at which a member listens to other members, from its configuration.
func peerOf(t *testing.T, home string, member *etcd.Member) string {
	t.Helper()
	file := must.Get(os.ReadFile(filepath.Join(home, member.Name+".json")))(t)
	config := map[string]any{}
	must.Do(t, json.Unmarshal(file, &config))
	return config["listen-peer-urls"].(string)
}

// A cluster of etcd is restored from a snapshot under a running controller. The controller notices, binds nothing
// from memory, and ends. The next controller adopts what was published since the snapshot.
func TestLong_AdoptRestoredUnderTheController(t *testing.T) {
	t.Parallel()
	l, store := newLossyCluster(t)
	l.forgets(func() { must.Do(t, store.Members[0].Stop()) }, func() {
		must.Get(store.Members[0].Start())(t)
		l.platform.WaitControllerEnded(t)
	})
}

// The ledger is restored from a snapshot while a shard is away, so that the allocations published there cannot be
// adopted. Until the shard is back, nothing is allocated from the pool, however often the controller is killed, and
// however many blocks are released meanwhile.
func TestLong_AdoptRestartsWhileAShardIsAway(t *testing.T) {
	t.Parallel()
	l := newLossy(t)
	here := framework.Admin(t, l.platform.Path)
	var goes []*ipamv1alpha1.IPClaim // in the platform's own workspace, which no shard hides
	for i := range 4 {
		claim := gen.Claim(fmt.Sprint("goes-", i), gen.OfClass(l.name), gen.Length(28))
		framework.Create(t, here, claim)
		goes = append(goes, claim)
	}
	framework.WaitBound(t, here, goes...)
	stays := l.holds("stays", gen.Length(28))
	l.published(append(goes, stays)...)
	l.save()
	since := l.holds("since", gen.Length(28))
	l.published(append(goes, stays, since)...)

	l.wipe()
	l.restore()
	l.link.Cut()
	late := gen.Claim("late", gen.OfClass(l.name), gen.Length(28))
	framework.Create(t, here, late)
	for _, claim := range goes {
		l.platform.LaunchController(t) // it does not become ready: no endpoint has listed anything
		framework.WaitAllocated(t, here, late, ipamv1alpha1.ReasonError)
		framework.Delete(t, here, claim)
		l.platform.WaitMetric(t, "ipam_ledger_blocks_released_total ", "1")
		l.platform.KillController(t)
	}
	l.platform.LaunchController(t)
	framework.WaitAllocated(t, here, late, ipamv1alpha1.ReasonError)
	if says := meta.FindStatusCondition(late.Status.Conditions, ipamv1alpha1.ConditionAllocated).Message; !strings.Contains(says, "frozen") {
		t.Errorf("the claim says %q; want it to say that the pool is frozen", says)
	}

	l.link.Restore()
	framework.WaitBound(t, here, late)
	disjointIn(t, l.cidr, l.blocks(stays, since, late)...)
	l.kept(stays, since)
	l.published(stays, since, late)
	l.platform.WaitVerified(t, "--etcd-data-dir="+l.dir)
}
