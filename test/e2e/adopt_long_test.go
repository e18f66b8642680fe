//go:build long

package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	etcdsnapshot "go.etcd.io/etcd/client/v3/snapshot"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// After the ledger is restored from a snapshot, later allocations are adopted, and later deletions release their
// blocks. A block that was deleted and allocated again belongs to the later claim.
func TestLong_AdoptRestored(t *testing.T) {
	t.Parallel()
	l := newLossy(t)
	stays, goes := l.holds("stays", gen.Length(28)), l.holds("goes", gen.Length(28))
	l.published(stays, goes)
	l.save()

	framework.Delete(t, l.tenant, goes)
	waitUnrecorded(t, l.tenant, goes.Name)
	l.published(stays)
	heir, more := l.holds("heir", gen.Length(28)), l.holds("more", gen.Length(30))
	if blockOf(t, heir) != blockOf(t, goes) {
		t.Fatalf("the heir has %s; want %s", blockOf(t, heir), blockOf(t, goes))
	}
	child := gen.Pool("child", gen.ChildOf(l.name, 24))
	framework.Allocate(t, l.platform, child)
	held := append(l.blocks(stays, heir, more), spaceOf(t, child))
	waitHeld(t, l.platform, l.offered, size(held...))

	l.wipe()
	l.restore()
	late := gen.Claim("late", gen.OfClass(l.name), gen.Length(28))
	framework.Create(t, l.tenant, late)
	l.platform.StartController(t)
	framework.WaitBound(t, l.tenant, late)
	held = append(held, blockOf(t, late))
	disjointIn(t, l.cidr, held...)
	l.kept(stays, heir, more)
	waitHeld(t, l.platform, l.offered, size(held...))
	l.says(heir, ipamv1alpha1.ReasonAllocationSucceeded)
}

// If two records have one block, the older record gets it. The claim of the other one says so, keeps its record, and
// gets the block when the older record goes.
func TestLong_AdoptGivesTheBlockToTheOlderRecord(t *testing.T) {
	t.Parallel()
	l := newLossy(t)
	one := l.holds("one", gen.Length(28))
	l.published(one)
	l.wipe()
	two := gen.Claim("two", gen.OfClass(l.name), gen.Length(28))
	framework.Create(t, l.tenant, two)
	<-time.After(time.Second) // kcp counts seconds, and this record is the younger one
	l.forge(two, one)
	l.platform.StartController(t)
	l.says(two, ipamv1alpha1.ReasonAddressInUse)

	late := l.holds("late", gen.Length(28))
	disjointIn(t, l.cidr, l.blocks(one, late)...)
	l.published(one, late)
	l.kept(two)

	framework.Delete(t, l.tenant, one)
	l.says(two, ipamv1alpha1.ReasonAllocationSucceeded)
	l.published(two, late)
}

// forge publishes that claim has the block of other.
func (l *lossy) forge(claim, other *ipamv1alpha1.IPClaim) {
	l.Helper()
	system, record := framework.System(l, l.tenant.Path), recordOf(l.T, l.tenant, other)
	record.ObjectMeta = metav1.ObjectMeta{Namespace: claim.Namespace, Name: ipamv1alpha1.AllocationName(claim.Namespace, claim.Name)}
	record.Spec.ClaimRef = &ipamv1alpha1.ClaimRef{Name: claim.Name, UID: claim.UID}
	framework.Create(l, system, record)
	claim.Status = *other.Status.DeepCopy()
	claim.Status.BoundAllocationRef.Name = record.Name
	must.Do(l, system.Update(l.Context(), claim))
}

// says waits until the condition Ready of a claim has this reason.
func (l *lossy) says(claim *ipamv1alpha1.IPClaim, want ipamv1alpha1.Reason) {
	l.Helper()
	framework.Eventually(l, fmt.Sprintf("claim %s to say %s", claim.Name, want), func(ctx context.Context) error {
		if err := l.tenant.Get(ctx, client.ObjectKeyFromObject(claim), claim); err != nil {
			return err
		}
		if ready := meta.FindStatusCondition(claim.Status.Conditions, ipamv1alpha1.ConditionReady); ready == nil || ready.Reason != string(want) {
			return fmt.Errorf("it says %v", ready)
		}
		return nil
	})
}

// save takes a snapshot of the ledger as `etcdctl snapshot save` does.
func (l *lossy) save() {
	l.Helper()
	config := clientv3.Config{Endpoints: []string{l.url}}
	must.Get(etcdsnapshot.SaveWithVersion(l.Context(), zap.NewNop(), config, l.snapshot))(l)
}

// restore makes the ledger from the snapshot, as `etcdutl snapshot restore` does.
func (l *lossy) restore() {
	l.Helper()
	config := snapshot.RestoreConfig{
		SnapshotPath: l.snapshot, OutputDataDir: l.dir, Name: l.member, PeerURLs: []string{l.peer},
		InitialCluster: l.member + "=" + l.peer, InitialClusterToken: "etcd-cluster",
	}
	must.Do(l, snapshot.NewV3(zap.NewNop()).Restore(config))
}
