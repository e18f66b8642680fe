package recover

import (
	"fmt"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// shows publishes a claim in a workspace. The claim shows a block of a pool of the platform, and has no IPAllocation.
func (l *loss) shows(name, cluster, pool, cidr string, made time.Time) *ipamv1alpha1.IPClaim {
	claim := in(cluster, gen.Claim(name, gen.Created(made)))
	claim.Status.AllocatedCIDR, claim.Status.ClassName = cidr, "internal"
	claim.Status.PoolRef = &ipamv1alpha1.PoolRef{Name: pool, ProjectRef: &ipamv1alpha1.ProjectRef{Name: "root:ipam"}}
	l.record.claims = append(l.record.claims, claim)
	return claim
}

// The block of a claim without IPAllocation is adopted if the pool admits the claim's workspace and nobody has the
// addresses. The claim takes no addresses from an IPAllocation, whichever of the two is read first, and keeps no pool
// frozen.
func TestPass_AdoptsTheBlockOfAClaimWithoutAnIPAllocation(t *testing.T) {
	l := newLoss(t)
	open := l.had(gen.Pool("open", gen.Visible(ipamv1alpha1.VisibilityPlatform)), "10.0.0.0/16", "lost", 7)
	closed := l.had(gen.Pool("closed"), "10.1.0.0/16", "lost", 7)
	l.record.records = []*ipamv1alpha1.IPAllocation{gen.Allocation("honest", "open", "10.0.4.0/28")}
	now := l.now.Now()
	l.shows("younger", "w1", "open", "10.0.6.0/28", now.Add(time.Second))
	l.shows("older", "w2", "open", "10.0.6.0/27", now)
	l.shows("against-a-record", "w1", "open", "10.0.4.0/24", now)
	l.shows("a-stranger", "w1", "closed", "10.1.4.0/28", now)
	l.shows("of-no-class", "w1", "open", "10.0.12.0/28", now).Status.ClassName = ""
	l.shows("of-a-class-that-is-gone", "w1", "open", "10.0.14.0/28", now).Status.ClassName = "gone"
	l.shows("outside", "w1", "open", "10.9.0.0/28", now)
	l.record.unbound = "deleted"
	l.shows("an-orphan", "deleted", "open", "10.0.10.0/28", now)
	l.shows("no-prefix", "w1", "open", "10.0.8.0/280", now)
	l.shows("not-masked", "w1", "open", "10.0.8.1/28", now)
	l.shows("everything", "w1", "nowhere", "0.0.0.0/0", now)
	l.binds("w1", "root:w1")
	must.Be(t, l.pass(t.Context()), errUnnamed)
	l.wantLost("while it is not certain that a workspace is gone", open)
	l.now.SetTime(now.Add(live.Absence))
	l.makesWhole(open, closed)
	l.wantAll(map[ledger.ClaimID]string{"uid-of-honest": "10.0.4.0/28 bound", "uid-of-older": "10.0.6.0/27 bound"})
}

// A claim can be stored with a forged status, past webhooks and policies. A pool that serves by class alone gives such
// a claim the block or range that it shows only if two conditions hold: the class admits the claim's workspace, and
// takes blocks from that pool.
func TestPass_AdoptsNoClaimWhoseClassRefusesItsWorkspace(t *testing.T) {
	friends := []gen.ClassOption{gen.Visible(ipamv1alpha1.VisibilityShared), gen.Consumers{"root:friend"}}
	net := gen.Class("net", append(friends, gen.PoolPer("allProjects", "network"))...)
	nic, beside := gen.Class("nic", append(friends, gen.Below("net"))...), gen.Class("beside", gen.Below("elsewhere"))
	internal := gen.Class("internal", friends...)
	inNetwork := func(class, cidr string) func(*ipamv1alpha1.IPClaim) {
		return func(c *ipamv1alpha1.IPClaim) {
			c.Spec.Scope = ipamv1alpha1.Scope{"network": {Kind: "Network", Name: "a"}}
			c.Status.PoolRef.Name, c.Status.ClassName, c.Status.AllocatedCIDR = "net-a", class, cidr
		}
	}
	for name, tt := range map[string]struct {
		from  string
		shows func(*ipamv1alpha1.IPClaim)
		want  string
	}{
		"a block":                   {"friend", inNetwork("nic", "10.0.3.16/28"), "10.0.3.16/28 bound"},
		"a stranger's block":        {"stranger", inNetwork("nic", "10.0.3.16/28"), ""},
		"by a class of other pools": {"friend", inNetwork("beside", "10.0.3.16/28"), ""},
		"of another scope": {"friend", func(c *ipamv1alpha1.IPClaim) {
			inNetwork("nic", "10.0.3.16/28")(c)
			c.Spec.Scope["network"] = ipamv1alpha1.ScopeRef{Kind: "Network", Name: "b"}
		}, ""},
		"a range": {"friend", func(c *ipamv1alpha1.IPClaim) {
			inNetwork("net", "10.0.3.0/24")(c)
			c.Spec.Target = ipamv1alpha1.TargetScopeRange
		}, "held"},
		"a stranger's range": {"stranger", func(c *ipamv1alpha1.IPClaim) {
			inNetwork("net", "10.0.3.0/24")(c)
			c.Spec.Target = ipamv1alpha1.TargetScopeRange
		}, ""},
		"a block of an authored pool":            {"friend", func(*ipamv1alpha1.IPClaim) {}, "10.1.4.0/28 bound"},
		"a stranger's block of an authored pool": {"stranger", func(*ipamv1alpha1.IPClaim) {}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLoss(t, net, nic, beside, internal)
			l.binds("friend", "root:friend")
			l.binds("stranger", "root:stranger")
			root := l.had(gen.Pool("root"), "10.0.0.0/16", "another", 9)
			l.had(gen.Pool("authored", gen.Visible(ipamv1alpha1.VisibilityPlatform)), "10.1.0.0/16", "another", 9)
			_, id := l.network("a", "10.0.3.0/24")
			tt.shows(l.shows("c", tt.from, "authored", "10.1.4.0/28", l.now.Now()))
			l.whole(root)
			must.Do(t, l.pass(t.Context()))
			got := l.blocks()["uid-of-c"]
			if held, ok := l.ledger.Derived().Held("uid-of-c"); ok && held.ID == id {
				got = "held"
			}
			if got != tt.want {
				t.Errorf("the claim has %q, want %q", got, tt.want)
			}
		})
	}
}

// A pass may come before the caches show the workspace of a claim without IPAllocation. Until the path is known, the
// claim's block is allocated to nobody else, not even to a younger claim. The pool stays frozen for live.Absence at
// most, counted again from each time that the path becomes unknown, even hours later.
func TestPass_KeepsAPoolFrozenWhileAClaimsPathIsUnknown(t *testing.T) {
	l := newLoss(t)
	l.had(gen.Pool("stuck", gen.ChildOf("gone", 24)), "10.9.0.0/24", "lost", 3)
	l.binds("early", "root:early")
	for i, name := range []string{"first", "second"} {
		cidr := fmt.Sprintf("10.%d.0.0", i)
		pool := l.had(gen.Pool(name, gen.Visible(ipamv1alpha1.VisibilityShared), gen.Consumers{"root:late", "root:early"}), cidr+"/16", "lost", 7)
		l.shows("older-"+name, "late", name, cidr+"/28", l.now.Now())
		l.shows("younger-"+name, "early", name, cidr+"/28", l.now.Now().Add(time.Second))
		must.Be(t, l.pass(t.Context()), errUnnamed)
		l.wantLost(name, pool)
		known := l.blocks()
		for _, claim := range []string{"older-", "younger-"} {
			if got, has := known[ledger.ClaimID("uid-of-"+claim+name)]; has {
				t.Errorf("%s: while the path is not known, %s has %s; want nothing", name, claim, got)
			}
		}
		late := l.binds("late", "root:late")
		_ = l.pass(t.Context()) // one pool is stuck
		l.wantWhole(name, pool)
		known = l.blocks()
		older, younger := known[ledger.ClaimID("uid-of-older-"+name)], known[ledger.ClaimID("uid-of-younger-"+name)]
		if want := cidr + "/28 bound"; older != want || younger != "" {
			t.Errorf("%s: once the path is known, the claims have %q and %q; want %q for the older one alone", name, older, younger, want)
		}
		l.Directory.Gone(late)
		l.now.SetTime(l.now.Now().Add(time.Hour))
	}
}

// An IPAllocation names its pool by a path that no workspace shows. Each lost pool that it may name stays frozen until
// the path is shown again. Other pools are made whole.
func TestPass_FreezesEachPoolThatARecordOfAnUnknownPathMayName(t *testing.T) {
	l := newLoss(t)
	pool := l.had(in("owner", gen.Pool("shared")), "10.1.0.0/16", "lost", 7)
	beside := l.had(gen.Pool("beside"), "10.1.0.0/16", "lost", 7)
	elsewhere := l.had(in("owner", gen.Pool("elsewhere")), "10.2.0.0/16", "lost", 7)
	record := in("tenant", gen.Allocation("a", "shared", "10.1.4.0/28"))
	record.Spec.PoolRef.ProjectRef = &ipamv1alpha1.ProjectRef{Name: "root:before"}
	l.record.records = []*ipamv1alpha1.IPAllocation{record}

	after := l.binds("owner", "root:after")
	if err := l.pass(t.Context()); err == nil || l.whole(pool) || !l.ledger.Recovery().Frozen("uid-of-shared") {
		t.Errorf("pass = %v; want the pool frozen that the record may lie in", err)
	}
	l.wantBlocks(map[*ipamv1alpha1.IPAllocation]string{record: ""})
	l.wantWhole("of another name, or without these addresses", elsewhere, beside)

	l.Directory.Gone(after)
	l.binds("owner", "root:before")
	l.makesWhole(pool)
	l.wantBlocks(map[*ipamv1alpha1.IPAllocation]string{record: "10.1.4.0/28 bound"})
}

// An IPAllocation names its pool by a path that no workspace shows. The restored ledger has the block of the
// IPAllocation. Nothing is lacking, so the pool is served. If the IPAllocation shows another block, the pool stays
// frozen.
func TestPass_IgnoresAnUnknownPathIfTheLedgerHasTheBlock(t *testing.T) {
	for shown, whole := range map[string]bool{"10.0.0.0/28": true, "10.0.0.16/28": false} {
		l := newLoss(t)
		id := l.older("a")
		record := gen.Allocation("a", "p", shown)
		record.Spec.PoolRef.ProjectRef = &ipamv1alpha1.ProjectRef{Name: "root:before"}
		l.record.records = []*ipamv1alpha1.IPAllocation{record}
		if err := l.pass(t.Context()); (err == nil) != whole || l.ledger.Recovery().Frozen(id) == whole {
			t.Errorf("a record of %s: pass = %v, frozen: %t; want the pool whole: %t", shown, err, l.ledger.Recovery().Frozen(id), whole)
		}
	}
}

// Nobody can delete an IPAllocation of a workspace that is bound nowhere. The pool that it may name stays frozen until
// two passes in a row, live.Absence or longer apart, have found the workspace bound nowhere.
func TestPass_IgnoresAnUnknownPathIfTheWorkspaceIsUnbound(t *testing.T) {
	l := newLoss(t)
	now := l.now
	pool := l.had(gen.Pool("shared"), "10.1.0.0/16", "lost", 7)
	record := in("deleted", gen.Allocation("a", "shared", "10.1.4.0/28", gen.Created(now.Now().Add(-time.Hour))))
	record.Spec.PoolRef.ProjectRef = &ipamv1alpha1.ProjectRef{Name: "root:before"}
	l.record.records = []*ipamv1alpha1.IPAllocation{record}
	for i, step := range []struct {
		passes  time.Duration
		unbound ledger.ClusterName
		slice   time.Duration // how long ago the endpoint slice was made
		whole   bool
	}{
		{0, "deleted", 2 * time.Hour, false},
		{live.Absence - 1, "deleted", 2 * time.Hour, false},
		{time.Hour, "", 0, false}, // a pass finds the workspace bound
		{live.Absence, "deleted", 2 * time.Hour, false},
		{live.Absence, "deleted", time.Minute, false},           // a shard that is down may be missing in so new a slice
		{0, "deleted", 2*time.Hour + 3*live.Absence - 1, false}, // as old as the IPAllocation; kcp counts seconds
		{0, "deleted", 5 * time.Hour, true},
	} {
		now.SetTime(now.Now().Add(step.passes))
		l.record.unbound, l.record.since = step.unbound, now.Now().Add(-step.slice)
		if err := l.pass(t.Context()); (err == nil) != step.whole || l.whole(pool) != step.whole {
			t.Errorf("step %d: pass = %v, whole: %t; want it whole: %t", i, err, l.whole(pool), step.whole)
		}
	}
	l.wantBlocks(map[*ipamv1alpha1.IPAllocation]string{record: ""})
}
