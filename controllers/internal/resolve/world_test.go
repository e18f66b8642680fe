package resolve_test

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/resolve"
)

var (
	platform = directory.Workspace{Cluster: "platform", Path: "root:ipam"}
	web      = directory.Workspace{Cluster: "web", Path: "root:acme:web"}
	db       = directory.Workspace{Cluster: "db", Path: "root:acme:db"}
)

// world is a catalog with the objects that a test gives it.
type world struct {
	classes []*ipamv1alpha1.IPClass
	pools   map[directory.Workspace][]*ipamv1alpha1.IPPool
	rooms   map[string]resolve.Room
	listed  *[]directory.Workspace // workspaces whose pools were all listed
}

func (w world) Class(name string) (*ipamv1alpha1.IPClass, bool) {
	i := slices.IndexFunc(w.classes, func(c *ipamv1alpha1.IPClass) bool { return c.Name == name })
	if i < 0 {
		return nil, false
	}
	return w.classes[i], true
}

func (w world) Classes() []*ipamv1alpha1.IPClass { return w.classes }

func (w world) DefaultClasses() []*ipamv1alpha1.IPClass {
	return slices.DeleteFunc(slices.Clone(w.classes), func(c *ipamv1alpha1.IPClass) bool { return !resolve.IsDefault(c) })
}

func (w world) Children(class string) []*ipamv1alpha1.IPClass {
	return slices.DeleteFunc(slices.Clone(w.classes), func(c *ipamv1alpha1.IPClass) bool { return c.Spec.ParentClassName != class })
}

func (w world) Pool(in directory.Workspace, name string) (*ipamv1alpha1.IPPool, bool) {
	i := slices.IndexFunc(w.pools[in], func(p *ipamv1alpha1.IPPool) bool { return p.Name == name })
	if i < 0 {
		return nil, false
	}
	return w.pools[in][i], true
}

func (w world) Pools(in directory.Workspace) []*ipamv1alpha1.IPPool {
	if w.listed != nil {
		*w.listed = append(*w.listed, in)
	}
	return w.pools[in]
}

func (w world) Backing(in directory.Workspace, class string) []*ipamv1alpha1.IPPool {
	return slices.DeleteFunc(slices.Clone(w.pools[in]), func(p *ipamv1alpha1.IPPool) bool {
		return !slices.Contains(p.Spec.ClassNames, class)
	})
}

func (w world) Workspace(path string) (directory.Workspace, bool) {
	for _, workspace := range []directory.Workspace{platform, web, db} {
		if workspace.Path == path {
			return workspace, true
		}
	}
	return directory.Workspace{}, false
}

func (w world) Room(pool *ipamv1alpha1.IPPool, _ int) resolve.Room { return w.rooms[pool.Name] }

// ready gives a pool its CIDR, as the pool controller does.
func ready(pool *ipamv1alpha1.IPPool) *ipamv1alpha1.IPPool {
	pool.Status.AllocatedCIDR = string(pool.Spec.CIDR)
	pool.Status.IPFamily = ipamv1alpha1.IPv4
	if len(pool.Spec.CIDR) > 0 && slices.Contains([]byte(pool.Spec.CIDR), ':') {
		pool.Status.IPFamily = ipamv1alpha1.IPv6
	}
	meta.SetStatusCondition(&pool.Status.Conditions, metav1.Condition{
		Type: ipamv1alpha1.ConditionAllocated, Status: metav1.ConditionTrue, Reason: string(ipamv1alpha1.ReasonAllocationSucceeded),
	})
	return pool
}

// query returns a query of a workspace for a claim.
func query(from directory.Workspace, claim *ipamv1alpha1.IPClaim) resolve.Query {
	return resolve.Query{Claim: claim, From: from, Platform: platform}
}

// pools returns the names of the plan's candidates, in order.
func pools(plan resolve.Plan) []string {
	names := make([]string, 0, len(plan.Candidates))
	for _, c := range plan.Candidates {
		names = append(names, c.Pool.Name)
	}
	return names
}
