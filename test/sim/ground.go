package sim

import (
	"context"
	"fmt"
	"time"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/sim/simkcp"
)

// tenants maps the letter with which a tenant's actors and object names begin to the tenant's logical cluster. The
// path of a tenant is root and its letter. The witness is a workspace without claims, so that a binding is left when
// those of all tenants are gone.
var tenants = map[string]string{"a": "aaaaaaaaaaaaaaaa", "b": "bbbbbbbbbbbbbbbb", "c": "cccccccccccccccc"}

const witness = "zzzzzzzzzzzzzzzz"

// letters are the letters of the tenants, in order.
var letters = []string{"a", "b", "c"}

// class has the rules of the contract for the claims of a class.
type class struct {
	cooldown time.Duration
	unique   []string                   // the roles within which addresses are unique; none: in the pool
	tenancy  string                     // the tenancy of its network: own, shared, or empty if it has no network
	level    string                     // the class whose range its blocks lie in; a range class names itself
	window   string                     // the CIDR of its pool, if all its claims share one address space
	most     int                        // addresses of a workspace; 0: no limit
	reclaim  ipamv1alpha1.ReclaimPolicy // the default of its claims
	leased   bool                       // retained blocks are freed after a time
	make     []gen.ClassOption
}

// classes are those of the platform. Pools are tiny, so that claims meet.
var classes = map[string]class{
	"flat":  {window: "10.0.0.0/29"},
	"keep":  {window: "10.1.0.0/28", reclaim: ipamv1alpha1.ReclaimRetain, make: []gen.ClassOption{gen.Reclaim(ipamv1alpha1.ReclaimRetain)}},
	"lease": {window: "10.2.0.0/28", reclaim: ipamv1alpha1.ReclaimRetain, leased: true, make: []gen.ClassOption{gen.Reclaim(ipamv1alpha1.ReclaimRetain), gen.Lease("2m")}},
	"cool":  {window: "10.3.0.0/28", cooldown: 2 * time.Minute, make: []gen.ClassOption{gen.Cooldown("2m")}},
	"few":   {window: "10.4.0.0/28", most: 2, make: []gen.ClassOption{gen.MaxPerConsumer("2")}},

	"net":  {tenancy: "own", level: "net", make: []gen.ClassOption{gen.DefaultLength(26), gen.PoolPer("project", "network")}},
	"end":  {tenancy: "own", level: "net", make: []gen.ClassOption{gen.DefaultLength(32), gen.Below("net")}},
	"snet": {tenancy: "shared", level: "snet", make: []gen.ClassOption{gen.DefaultLength(26), gen.PoolPer("allProjects", "network")}},
	"send": {tenancy: "shared", level: "snet", make: []gen.ClassOption{gen.DefaultLength(32), gen.Below("snet")}},
	"cnet": {tenancy: "own", level: "cnet", make: []gen.ClassOption{gen.DefaultLength(26), gen.PoolPer("project", "network")}},
	"cell": {tenancy: "own", level: "cnet", unique: []string{"cell"}, cooldown: 2 * time.Minute,
		make: []gen.ClassOption{gen.DefaultLength(32), gen.Below("cnet"), gen.UniqueWithin("cell"), gen.Cooldown("2m")}},
	"scell":  {tenancy: "shared", level: "scnet", unique: []string{"cell"}, make: []gen.ClassOption{gen.DefaultLength(32), gen.Below("scnet"), gen.UniqueWithin("cell")}},
	"scnet":  {tenancy: "shared", level: "scnet", make: []gen.ClassOption{gen.DefaultLength(26), gen.PoolPer("allProjects", "network")}},
	"vrf":    {unique: []string{"network"}, make: []gen.ClassOption{gen.DefaultLength(32), gen.UniqueWithin("network")}},
	"mflat":  {cooldown: 2 * time.Minute, make: []gen.ClassOption{gen.DefaultLength(32), gen.Cooldown("2m")}},
	"mvrf":   {cooldown: 2 * time.Minute, unique: []string{"network"}, make: []gen.ClassOption{gen.DefaultLength(32), gen.Cooldown("2m"), gen.UniqueWithin("network")}},
	"site":   {tenancy: "own", level: "site", make: []gen.ClassOption{gen.DefaultLength(24), gen.PoolPer("project", "network")}},
	"room":   {tenancy: "own", level: "room", make: []gen.ClassOption{gen.DefaultLength(28), gen.Below("site"), gen.PoolPer("project", "network", "cell")}},
	"socket": {tenancy: "own", level: "room", make: []gen.ClassOption{gen.DefaultLength(32), gen.Below("room")}},
	"vnet": {tenancy: "own", level: "vnet", unique: []string{"network"},
		make: []gen.ClassOption{gen.DefaultLength(26), gen.PoolPer("project", "network"), gen.UniqueWithin("network")}},
	"vsub":  {tenancy: "own", level: "vsub", unique: []string{"network"}, make: []gen.ClassOption{gen.DefaultLength(28), gen.Below("vnet"), gen.PoolPer("project", "network", "cell")}},
	"vhost": {tenancy: "own", level: "vsub", unique: []string{"network"}, make: []gen.ClassOption{gen.DefaultLength(32), gen.Below("vsub")}},
}

// pools are the root pools of the platform: name, CIDR and class.
var pools = [][3]string{
	{"flat", "10.0.0.0/29", "flat"},
	{"keep", "10.1.0.0/28", "keep"},
	{"lease", "10.2.0.0/28", "lease"},
	{"cool", "10.3.0.0/28", "cool"},
	{"few", "10.4.0.0/28", "few"},
	{"net", "10.16.0.0/16", "net"},
	{"snet", "10.17.0.0/16", "snet"},
	{"vrf", "10.18.0.0/28", "vrf"},
	{"mixed", "10.19.0.0/28", "mflat"},
	{"cnet", "10.20.0.0/16", "cnet"},
	{"scnet", "10.21.0.0/16", "scnet"},
	{"site", "10.22.0.0/16", "site"},
	{"vnet", "10.23.0.0/26", "vnet"}, // as large as one network
}

// furnish makes the workspaces, and the classes and pools of the platform.
func (s *Simulation) furnish() {
	s.world.Workspace(simkcp.Platform, simkcp.PlatformPath, "default", "ipam-system")
	for _, letter := range letters {
		s.world.Workspace(tenants[letter], "root:"+letter, "default", "other")
	}
	s.world.Workspace(witness, "root:z", "default")
	platform := simkcp.User{World: s.world, Cluster: simkcp.Platform, Name: "platform"}
	create := func(plural string, object any) {
		if _, err := platform.Create(context.Background(), plural, object); err != nil {
			panic(fmt.Errorf("furnish: %w", err))
		}
	}
	for _, name := range sorted(classes) {
		create("ipclasses", gen.Class(name, classes[name].make...))
	}
	for _, p := range pools {
		create("ippools", gen.Pool(p[0], gen.CIDR(ipamv1alpha1.CIDR(p[1])), gen.Backs(p[2]), gen.Visible(ipamv1alpha1.VisibilityPlatform)))
	}
}

// letterOf returns the letter of a logical cluster; p is the platform's.
func letterOf(cluster string) string { return cluster[:1] }
