package recover

import (
	"slices"
	"testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A pool stays frozen while the path of its workspace is unknown; other pools are made whole. If another workspace
// shows the same path, the pool is made whole, too, with one exception. If both workspaces have a pool of the same
// name, and an IPAllocation of a third workspace names it, both pools stay frozen.
func TestPass_FreezesPoolsOnlyWhereAPathIsAmbiguous(t *testing.T) {
	l := newLoss(t)
	platform := l.had(gen.Pool("p"), "10.0.0.0/16", "lost", 7)
	pool := l.had(in("victim", gen.Pool("v")), "10.1.0.0/16", "lost", 7)
	bound, contested := gen.Allocation("a", "p", "10.0.4.0/28"), in("victim", gen.Allocation("b", "v", "10.1.4.0/28"))
	l.record.records = []*ipamv1alpha1.IPAllocation{bound, contested}
	l.makesWhole(platform)
	l.wantLost("while the path of its workspace is not known", pool)
	l.wantBlocks(map[*ipamv1alpha1.IPAllocation]string{bound: "10.0.4.0/28 bound", contested: ""})

	l.binds("victim", "root:victim")
	forger := l.binds("forger", "root:victim")
	if !l.Directory.Contests("victim") {
		t.Fatal("the path names the victim")
	}
	l.makesWhole(pool, platform)
	l.wantBlocks(map[*ipamv1alpha1.IPAllocation]string{bound: "10.0.4.0/28 bound", contested: "10.1.4.0/28 bound"})

	shared := l.had(in("victim", gen.Pool("s")), "10.2.0.0/16", "lost", 7)
	l.binds("consumer", "root:consumer")
	theirs := in("consumer", gen.Allocation("c", "s", "10.2.4.0/28"))
	theirs.Spec.PoolRef.ProjectRef = &ipamv1alpha1.ProjectRef{Name: "root:victim"}
	l.record.records = append(l.record.records, theirs)
	mimic := l.had(in("forger", gen.Pool("s")), "10.2.0.0/16", "lost", 7)
	mimic.UID = "mimic"
	if err := l.pass(t.Context()); err == nil {
		t.Error("pass = nil; want it to name the record that two pools may have")
	}
	l.wantLost("that the record of another workspace may mean", shared, mimic)
	l.wantWhole("beside it", pool)
	l.record.pools = slices.DeleteFunc(l.record.pools, func(p *ipamv1alpha1.IPPool) bool { return p == mimic })
	l.makesWhole(shared)
	l.wantBlocks(map[*ipamv1alpha1.IPAllocation]string{theirs: "10.2.4.0/28 bound"})
	l.Directory.Gone(forger)
	l.makesWhole(pool, shared)
}

// Two pools fit the reference of a child to its parent, and both have the child's addresses. Both stay frozen, because
// one of them lacks the child's block.
func TestPass_FreezesBothPoolsThatMayBeAParent(t *testing.T) {
	l := newLoss(t)
	l.binds("victim", "root:victim")
	l.binds("forger", "root:victim")
	shares := []gen.PoolOption{gen.Visible(ipamv1alpha1.VisibilityShared), gen.Consumers{"root:consumer"}, gen.Lengths{Min: 24, Max: 28}}
	parent, beside := l.had(in("victim", gen.Pool("s", shares...)), "10.2.0.0/16", "lost", 7), l.had(in("victim", gen.Pool("b")), "10.3.0.0/16", "lost", 7)
	mimic := l.had(in("forger", gen.Pool("s", shares...)), "10.2.0.0/16", "lost", 7)
	mimic.UID = "mimic"
	child := l.had(in("consumer", gen.Pool("k", gen.ChildOf("s", 24))), "10.2.9.0/24", "lost", 3)
	child.Spec.ParentPoolRef.ProjectRef = &ipamv1alpha1.ProjectRef{Name: "root:victim"}
	l.binds("consumer", "root:consumer")
	if err := l.pass(t.Context()); err == nil {
		t.Error("pass = nil; want it to name the child")
	}
	l.wantLost("of which the child may be", parent, mimic, child)
	l.wantWhole("beside it", beside)
	l.record.pools = slices.DeleteFunc(l.record.pools, func(p *ipamv1alpha1.IPPool) bool { return p == mimic })
	l.makesWhole(parent, child)
}
