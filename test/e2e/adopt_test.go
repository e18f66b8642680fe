package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

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

// lossy is a platform whose controller loses its ledger.
type lossy struct {
	scene
	dir, url     string // of the etcd: its data, and where it listens
	member, peer string // its name, and where it listens to others like it
	link         *framework.Link
	snapshot     string
	offered      *ipamv1alpha1.IPPool
}

// newLossy has a controller that runs with the etcd in itself, a pool that backs a class,
// and a tenant.
func newLossy(t *testing.T) *lossy {
	t.Helper()
	home := t.TempDir()
	l := &lossy{dir: filepath.Join(home, "ledger"), url: "unix://" + home + "/etcd", member: "default", peer: "http://localhost:2380"}
	l.start(t, "--etcd-data-dir="+l.dir, "--etcd-listen-client-url="+l.url)
	return l
}

// start starts a controller with these flags, on a platform of its own.
func (l *lossy) start(t *testing.T, flags ...string) {
	t.Helper()
	l.snapshot = filepath.Join(t.TempDir(), "snapshot")
	platform := framework.NewPlatform(t)
	link, replica := platform.Link(t, "lossy", flags...)
	replica.StartController(t)
	t.Cleanup(func() { replica.StopController(t) }) // before its data goes
	l.link, l.scene = link, scene{T: t, platform: replica, name: framework.Name(t), cidr: platform.CIDR(t)}
	l.offered = offer(t, replica, l.name, l.cidr)
	l.tenant = replica.Tenant(t)
}

// published waits until the status of the pool that backs the class says what it holds
// now, and with it how far the ledger has come.
func (l *lossy) published(claims ...*ipamv1alpha1.IPClaim) {
	l.Helper()
	waitHeld(l.T, l.platform, l.offered, size(l.blocks(claims...)...))
}

func (l *lossy) blocks(claims ...*ipamv1alpha1.IPClaim) []netip.Prefix {
	l.Helper()
	blocks := make([]netip.Prefix, len(claims))
	for i, claim := range claims {
		blocks[i] = blockOf(l.T, claim)
	}
	return blocks
}

// wipe deletes the data of the ledger while the controller is away.
func (l *lossy) wipe() {
	l.Helper()
	l.platform.StopController(l)
	must.Do(l, os.RemoveAll(l.dir))
}

// save takes a snapshot of the ledger as `etcdctl snapshot save` does.
func (l *lossy) save() {
	l.Helper()
	config := clientv3.Config{Endpoints: []string{l.url}}
	must.Get(etcdsnapshot.SaveWithVersion(l.Context(), zap.NewNop(), config, l.snapshot))(l)
}

// restore makes the ledger of the snapshot as `etcdutl snapshot restore` does.
func (l *lossy) restore() {
	l.Helper()
	config := snapshot.RestoreConfig{
		SnapshotPath: l.snapshot, OutputDataDir: l.dir, Name: l.member, PeerURLs: []string{l.peer},
		InitialCluster: l.member + "=" + l.peer, InitialClusterToken: "etcd-cluster",
	}
	must.Do(l, snapshot.NewV3(zap.NewNop()).Restore(config))
}

// kept fails the test if a claim is no longer bound to what it had.
func (l *lossy) kept(claims ...*ipamv1alpha1.IPClaim) {
	l.Helper()
	for _, claim := range claims {
		now := claim.DeepCopy()
		framework.WaitBound(l, l.tenant, now)
		if now.Status.AllocatedCIDR != claim.Status.AllocatedCIDR {
			l.Errorf("claim %s had %s, and has %s", claim.Name, claim.Status.AllocatedCIDR, now.Status.AllocatedCIDR)
		}
	}
}

// The ledger is gone: what was published is adopted before anything is given out, of the
// platform and of tenants, roots and children, bound and retained. A new pool takes
// nothing of a lost one.
func TestAdopt_Wiped(t *testing.T) {
	t.Parallel()
	l := newLossy(t)
	own := l.ownPool(gen.CIDR("10.0.0.0/24"))
	child := gen.Pool("child", gen.ChildOf("own", 26))
	framework.Create(t, l.tenant, child)
	below := gen.Claim("below", gen.FromPool("child"), gen.Length(28))
	framework.Bind(t, l.tenant, below)
	stays, goes, retained := l.holds("stays", gen.Length(28)), l.holds("goes", gen.Length(30)), l.holds("retained", gen.Length(29), gen.Reclaim(ipamv1alpha1.ReclaimRetain))
	framework.Delete(t, l.tenant, retained)
	l.retained(retained)
	l.published(stays, goes, retained)
	framework.WaitAllocated(t, l.tenant, child, ipamv1alpha1.ReasonAllocationSucceeded)
	waitHeld(t, l.tenant, child, size(blockOf(t, below)))

	l.wipe()
	late := []*ipamv1alpha1.IPClaim{
		gen.Claim("late", gen.OfClass(l.name), gen.Length(28)), gen.Claim("lower", gen.FromPool("own"), gen.Length(28)),
		gen.Claim("lowest", gen.FromPool("child"), gen.Length(28)),
	}
	for _, claim := range late {
		framework.Create(t, l.tenant, claim)
	}
	intruder := gen.Pool("intruder", gen.CIDR("10.0.0.0/16"))
	framework.Create(t, l.tenant, intruder)
	l.platform.StartController(t)

	framework.WaitBound(t, l.tenant, late...)
	framework.WaitAllocated(t, l.tenant, intruder, ipamv1alpha1.ReasonOverlap)
	l.kept(stays, goes, below)
	disjointIn(t, l.cidr, l.blocks(stays, goes, retained, late[0])...)
	disjointIn(t, "10.0.0.0/24", spaceOf(t, child), blockOf(t, late[1]))
	disjointIn(t, ipamv1alpha1.CIDR(child.Status.AllocatedCIDR), l.blocks(below, late[2])...)
	l.published(stays, goes, retained, late[0])
	waitHeld(t, l.tenant, own, size(spaceOf(t, child), blockOf(t, late[1])))

	framework.Delete(t, l.tenant, goes)
	framework.Delete(t, l.tenant, l.retained(retained))
	l.published(stays, late[0])
}

// The ledger is restored from a snapshot: what was given out since is adopted, what was
// deleted since is released, and what was both in turn is not in dispute for long.
func TestAdopt_Restored(t *testing.T) {
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
	l.disputed(false, heir)
}

// Two records have one block. Both claims keep it and say so, and nobody else gets it.
func TestAdopt_TwoRecords(t *testing.T) {
	t.Parallel()
	l := newLossy(t)
	one := l.holds("one", gen.Length(28))
	l.published(one)
	l.wipe()
	two := gen.Claim("two", gen.OfClass(l.name), gen.Length(28))
	framework.Create(t, l.tenant, two)
	l.forge(two, one)
	l.platform.StartController(t)
	l.disputed(true, one, two)

	late := l.holds("late", gen.Length(28))
	disjointIn(t, l.cidr, l.blocks(one, late)...)
	l.published(one, late)
	l.kept(two)

	framework.Delete(t, l.tenant, two)
	l.disputed(false, one)
	l.published(one, late)
}

// forge publishes that a claim has the block of another.
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

// disputed waits until claims and their records say that their block is in dispute, or not.
func (l *lossy) disputed(want bool, claims ...*ipamv1alpha1.IPClaim) {
	l.Helper()
	for _, claim := range claims {
		framework.Eventually(l, fmt.Sprintf("claim %s to say disputed: %t", claim.Name, want), func(ctx context.Context) error {
			if err := l.tenant.Get(ctx, client.ObjectKeyFromObject(claim), claim); err != nil {
				return err
			}
			record := recordOf(l.T, l.tenant, claim)
			inClaim := meta.IsStatusConditionTrue(claim.Status.Conditions, ipamv1alpha1.ConditionDisputed)
			if inRecord := meta.IsStatusConditionTrue(record.Status.Conditions, ipamv1alpha1.ConditionDisputed); inClaim != want || inRecord != want {
				return fmt.Errorf("the claim says %t, its record %t", inClaim, inRecord)
			}
			return nil
		})
	}
}
