package e2e

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// lossy is a platform whose controller loses its ledger.
type lossy struct {
	scene
	dir, url     string // the etcd's data, and where it listens
	member, peer string // the etcd's name, and where it listens to other members
	link         *framework.Link
	snapshot     string
	offered      *ipamv1alpha1.IPPool
}

// newLossy returns a platform whose controller runs with the etcd inside, with a pool that backs a class, and a
// tenant.
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

// published waits until the status of the class's pool shows the pool's present use, and with it how far the ledger
// has come.
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

// kept fails the test if a claim is no longer bound to its former block.
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

// After the loss of the ledger, everything that was published is adopted before anything is given out: of the
// platform and of tenants, roots and children, bound and retained. A new pool takes nothing of a lost one.
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
