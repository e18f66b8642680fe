package recover

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/decode"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/test/gen"
)

// inTenant publishes, in the workspace tenant, a child of the platform's pool p at this CIDR.
func (l *loss) inTenant(name, cidr string, length int32) *ipamv1alpha1.IPPool {
	child := l.had(in("tenant", gen.Pool(name, gen.ChildOf("p", length), gen.UID("uid-of-child"))), cidr, "lost", 3)
	child.Spec.ParentPoolRef.ProjectRef = &ipamv1alpha1.ProjectRef{Name: "root:ipam"}
	return child
}

// A child pool may have a forged status, stored past webhooks and policies. It is carved only if its parent would admit
// it today, or an IPAllocation shows a block of it. The parent is made whole, whether the child is carved or not.
func TestPass_CarvesOnlyChildrenThatTheParentAdmits(t *testing.T) {
	shared := []gen.PoolOption{gen.Visible(ipamv1alpha1.VisibilityShared), gen.Consumers{"root:tenant"}, gen.Lengths{Min: 24, Max: 28}}
	for name, tt := range map[string]struct {
		parent  []gen.PoolOption
		child   string
		cidr    string
		length  int32
		records []*ipamv1alpha1.IPAllocation
		carved  bool
	}{
		"shared":                    {parent: shared, child: "k", cidr: "10.0.9.0/24", length: 24, carved: true},
		"not shared":                {child: "k", cidr: "10.0.9.0/24", length: 24},
		"larger than it gives":      {parent: shared, child: "k", cidr: "10.0.0.0/20", length: 20},
		"larger than it asks for":   {parent: shared, child: "k", cidr: "10.0.0.0/20", length: 24},
		"not shared any more":       {child: "k", cidr: "10.0.9.0/24", length: 24, records: []*ipamv1alpha1.IPAllocation{gen.Allocation("a", "k", "10.0.9.16/28")}, carved: true},
		"a record is beside it":     {child: "k", cidr: "10.0.9.0/24", length: 24, records: []*ipamv1alpha1.IPAllocation{gen.Allocation("a", "k", "10.0.8.0/23")}},
		"a slice":                   {parent: []gen.PoolOption{gen.Visible(ipamv1alpha1.VisibilityPlatform), gen.Slices(24)}, child: "p", cidr: "10.0.9.0/24", length: 24, carved: true},
		"a slice by another name":   {parent: []gen.PoolOption{gen.Visible(ipamv1alpha1.VisibilityPlatform), gen.Slices(24)}, child: "k", cidr: "10.0.9.0/24", length: 24},
		"a slice of another length": {parent: []gen.PoolOption{gen.Visible(ipamv1alpha1.VisibilityPlatform), gen.Slices(28)}, child: "p", cidr: "10.0.9.0/24", length: 24},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLoss(t)
			l.binds("tenant", "root:tenant")
			parent := l.had(gen.Pool("p", tt.parent...), "10.0.0.0/16", "lost", 7)
			child := l.inTenant(tt.child, tt.cidr, tt.length)
			child.Labels = map[string]string{ipamv1alpha1.LabelSlice: string(parent.UID)}
			for _, record := range tt.records {
				in("tenant", record)
			}
			l.record.records = tt.records
			err := l.pass(t.Context())
			if carved, ok := l.ledger.Pools().Get("uid-of-child"); ok != tt.carved || l.whole(child) != tt.carved {
				t.Errorf("pass = %v, and the ledger has %q of the child; want it there: %t", err, carved.CIDR, tt.carved)
			}
			l.wantWhole("above the child", parent)
		})
	}
}

// A pool that was carved by class is carved again from the parent that its status shows, if that parent serves the
// class to the workspace and the status fits the spec.
func TestPass_CarvesAPoolByClassWhereItWas(t *testing.T) {
	serves := []gen.PoolOption{gen.Visible(ipamv1alpha1.VisibilityPlatform)}
	for name, tt := range map[string]struct {
		parent []gen.PoolOption
		option gen.PoolOption
		cidr   string
		above  string
		carved bool
	}{
		"of the default length":       {parent: serves, option: gen.CarvedBy("c", 0), cidr: "10.0.9.0/24", above: "p", carved: true},
		"of its length":               {parent: serves, option: gen.CarvedBy("c", 24), cidr: "10.0.9.0/24", above: "p", carved: true},
		"of its block":                {parent: serves, option: gen.CarvedByAt("c", "10.0.9.0/24"), cidr: "10.0.9.0/24", above: "p", carved: true},
		"another block than it asked": {parent: serves, option: gen.CarvedByAt("c", "10.0.8.0/24"), cidr: "10.0.9.0/24", above: "p"},
		"larger than it asks for":     {parent: serves, option: gen.CarvedBy("c", 28), cidr: "10.0.9.0/24", above: "p"},
		"a parent that serves none":   {option: gen.CarvedBy("c", 24), cidr: "10.0.9.0/24", above: "p"},
		"without a parent":            {parent: serves, option: gen.CarvedBy("c", 24), cidr: "10.0.9.0/24"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLoss(t)
			l.binds("tenant", "root:tenant")
			parent := l.had(gen.Pool("p", tt.parent...), "10.0.0.0/16", "lost", 7)
			child := l.had(in("tenant", gen.Pool("k", tt.option, gen.UID("uid-of-child"))), tt.cidr, "lost", 3)
			if tt.above != "" {
				child.Status.ParentPoolRef = &ipamv1alpha1.PoolRef{Name: tt.above, ProjectRef: &ipamv1alpha1.ProjectRef{Name: "root:ipam"}}
			}
			err := l.pass(t.Context())
			carved, ok := l.ledger.Pools().Get("uid-of-child")
			if ok != tt.carved || ok && (carved.CIDR.String() != tt.cidr || carved.Parent != ledger.PoolID(parent.UID)) {
				t.Errorf("pass = %v, and the ledger has %+v of the pool; want it there: %t", err, carved, tt.carved)
			}
			l.wantWhole("above the pool by class", parent)
		})
	}
}

// A derived pool is not carved from a pool of another tenant, whatever its IPPool shows.
func TestPass_RefusesADerivedPoolInAnotherTenantsPool(t *testing.T) {
	l := newLoss(t)
	for _, cluster := range []string{"tenant", "victim"} {
		l.binds(cluster, "root:"+cluster)
	}
	parent := l.had(in("victim", gen.Pool("root")), "10.0.0.0/16", "lost", 7)
	forged, _ := l.network("a", "10.0.3.0/24")
	id := ledger.DerivedID("net", "tenant", ledger.Scope{"network": {Kind: "Network", Name: "a"}})
	in("tenant", forged)
	forged.Spec.ParentPoolRef.ProjectRef = &ipamv1alpha1.ProjectRef{Name: "root:victim"}
	forged.Status.ScopeDigest = ledger.Digest(id)
	err := l.pass(t.Context())
	if p, ok := l.ledger.Pools().Get(id); ok || !l.whole(parent) {
		t.Errorf("pass = %v, and the ledger has %s of the forged pool; want none, and the parent whole", err, p.CIDR)
	}
}

// A child is carved even if its own IPPool, or that of its parent, cannot be read, so that its block is not allocated
// to others.
func TestPass_CarvesAChildThoughAPoolIsUnreadable(t *testing.T) {
	for _, odd := range []string{"p", "k"} {
		l := newLoss(t)
		l.binds("tenant", "root:tenant")
		pools := map[string]*ipamv1alpha1.IPPool{"p": l.had(gen.Pool("p"), "10.0.0.0/16", "lost", 7), "k": l.inTenant("k", "10.0.9.0/24", 24)}
		pools["k"].Spec.PrefixLength = 0
		metav1.SetMetaDataAnnotation(&pools[odd].ObjectMeta, decode.Mark, "a number is too large")
		err := l.pass(t.Context())
		if p, ok := l.ledger.Pools().Get("uid-of-child"); !ok || err != nil {
			t.Errorf("pool %s cannot be read: pass = %v, and the ledger has %s of the child; want its block taken", odd, err, p.CIDR)
		}
	}
}

// After a start the path of a child's workspace may be unknown, and the parent admits workspaces by path. The parent
// stays frozen until the path is known, or live.Absence is over.
func TestPass_FreezesAParentUntilTheWorkspaceOfAChildIsKnown(t *testing.T) {
	for _, known := range []bool{true, false} {
		l := newLoss(t)
		parent := l.had(gen.Pool("p", gen.Visible(ipamv1alpha1.VisibilityShared), gen.Consumers{"root:tenant"}), "10.0.0.0/16", "lost", 7)
		child := l.inTenant("k", "10.0.9.0/24", 24)
		if err := l.pass(t.Context()); err == nil || l.whole(parent) {
			t.Errorf("pass = %v; want the parent frozen", err)
		}
		if known {
			l.binds("tenant", "root:tenant")
		} else {
			l.now.SetTime(l.now.Now().Add(live.Absence))
		}
		err := l.pass(t.Context())
		if _, carved := l.ledger.Pools().Get("uid-of-child"); err != nil || !l.whole(parent) || l.whole(child) != known || carved != known {
			t.Errorf("pass = %v; want the parent whole, and the child: %t", err, known)
		}
	}
}

// An IPAllocation may name a child pool by a path that nobody shows. It still vouches for the child: the child is
// carved, and nobody else gets its addresses.
func TestPass_CarvesAChildForARecordOfAnUnknownPath(t *testing.T) {
	l := newLoss(t)
	parent := l.had(gen.Pool("p"), "10.0.0.0/16", "lost", 7)
	l.inTenant("k", "10.0.9.0/24", 24)
	record := in("other", gen.Allocation("a", "k", "10.0.9.16/28"))
	record.Spec.PoolRef.ProjectRef = &ipamv1alpha1.ProjectRef{Name: "root:tenant"}
	l.record.records = []*ipamv1alpha1.IPAllocation{record}
	if err := l.pass(t.Context()); err != nil && !errors.Is(err, errPathless) || !l.whole(parent) {
		t.Errorf("pass = %v; want the parent whole", err)
	}
	if p, ok := l.ledger.Pools().Get("uid-of-child"); !ok || p.Parent != ledger.PoolID(parent.UID) {
		t.Errorf("the ledger has %+v, %t of the child; want its block taken", p, ok)
	}
}
