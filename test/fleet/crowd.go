package fleet

import (
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// Crowd generates workspaces, claims and their records. Each workspace has the same number of claims. Each claim is
// bound to one address, and all addresses are from one pool of the platform.
type Crowd struct {
	workspaces, each, shards int

	clusters    []string       // by their numbers
	numbers     map[string]int // of the clusters
	recordNames []string       // the names of records, by the number of the claim in its workspace
	names       map[string]int // the numbers in recordNames, by the name
	blocks      []netip.Addr   // by the number of the claim; set before it is served

	claim, record, binding string // JSON; words with a dollar are replaced
}

// NewCrowd generates claims, an equal share in each workspace, and spreads the workspaces over shards. Before they
// are served, give each claim its address with Holds.
func NewCrowd(workspaces, claims, shards int) *Crowd {
	c := &Crowd{
		workspaces: workspaces, each: claims / workspaces, shards: shards,
		numbers: map[string]int{}, names: map[string]int{},
	}
	c.blocks = make([]netip.Addr, workspaces*c.each)
	for w := range workspaces {
		cluster := clusterName(w)
		c.clusters = append(c.clusters, cluster)
		c.numbers[cluster] = w
	}
	for k := range c.each {
		name := ipamv1alpha1.AllocationNames("default", claimName(k))[0]
		c.names[name], c.recordNames = k, append(c.recordNames, name)
	}
	c.claim, c.record, c.binding = compact(claimJSON), compact(recordJSON), compact(bindingJSON)
	return c
}

// Claims returns the number of claims.
func (c *Crowd) Claims() int { return len(c.blocks) }

// Holds says which address a claim has. Calls for the same claim must not be concurrent.
func (c *Crowd) Holds(claim int, address netip.Addr) { c.blocks[claim] = address }

// Holder returns the identity of a claim: its UID, logical cluster, namespace and name.
func (c *Crowd) Holder(claim int) (uid, cluster, namespace, name string) {
	return claimUID(claim), c.clusters[claim/c.each], "default", claimName(claim % c.each)
}

// Cluster returns the logical cluster of a workspace.
func (c *Crowd) Cluster(workspace int) string { return c.clusters[workspace] }

func (c *Crowd) shardOf(cluster string) string {
	w, ok := c.numbers[cluster]
	if !ok {
		return ""
	}
	return shardName(w * c.shards / c.workspaces)
}

func shardName(n int) string { return "shard-" + strconv.Itoa(n) }

// workspacesIn returns the numbers of the workspaces that a scope may cover.
func (c *Crowd) workspacesIn(in scope) (from, to int) {
	if in.cluster != "" {
		w, ok := c.numbers[in.cluster]
		if !ok {
			return 0, 0
		}
		return w, w + 1
	}
	return 0, c.workspaces
}

// claims are the IPClaims of a crowd.
type claims struct{ *Crowd }

func (c claims) span(in scope) (int, int) {
	from, to := c.workspacesIn(in)
	return from * c.each, to * c.each
}

func (c claims) at(i int) place {
	return place{c.clusters[i/c.each], "default", claimName(i % c.each)}
}

func (c claims) find(p place) (int, bool) {
	w, ok := c.numbers[p.cluster]
	digits, named := strings.CutPrefix(p.name, "web-")
	k, err := strconv.Atoi(digits)
	if !ok || !named || err != nil || p.namespace != "default" || k >= c.each || claimName(k) != p.name {
		return 0, false
	}
	return w*c.each + k, true
}

func (c claims) render(i int) []byte { return []byte(os.Expand(c.claim, c.value(i))) }

// value returns a function that gives the value of a word in a claim or its record.
func (c *Crowd) value(i int) func(word string) string {
	return func(word string) string {
		switch word {
		case "cluster":
			return c.clusters[i/c.each]
		case "claim":
			return claimName(i % c.each)
		case "uid":
			return claimUID(i)
		case "record":
			return c.recordNames[i%c.each]
		case "ruid":
			return uid(uint64(i) + 1<<40)
		case "address":
			return c.blocks[i].String()
		case "rv":
			return version(i)
		}
		panic("no value for " + word)
	}
}

// version returns the resourceVersion of a generated object.
func version(i int) string { return strconv.Itoa(100 + i%800) }

// records are the IPAllocations of a crowd.
type records struct{ *Crowd }

func (c records) span(in scope) (int, int) { return claims(c).span(in) }

func (c records) at(i int) place {
	return place{c.clusters[i/c.each], "default", c.recordNames[i%c.each]}
}

func (c records) find(p place) (int, bool) {
	w, ok := c.numbers[p.cluster]
	k, there := c.names[p.name]
	return w*c.each + k, ok && there && p.namespace == "default"
}

func (c records) render(i int) []byte { return []byte(os.Expand(c.record, c.value(i))) }

// bindings are the APIBindings of the workspaces.
type bindings struct{ *Crowd }

func (c bindings) span(in scope) (int, int) { return c.workspacesIn(in) }

func (c bindings) at(i int) place { return place{cluster: c.clusters[i], name: "ipam"} }

func (c bindings) find(p place) (int, bool) {
	w, ok := c.numbers[p.cluster]
	return w, ok && p.namespace == "" && p.name == "ipam"
}

func (c bindings) render(i int) []byte {
	words := map[string]string{
		"cluster": c.clusters[i], "path": fmt.Sprintf("root:fleet:team-%05d", i), "uid": uid(uint64(i) + 1<<41), "rv": version(i),
	}
	return []byte(os.Expand(c.binding, func(word string) string { return words[word] }))
}

func claimName(k int) string { return fmt.Sprintf("web-%06d", k) }

func claimUID(i int) string { return uid(uint64(i)) }

// clusterName returns a name like those of logical clusters in kcp.
func clusterName(w int) string {
	const letters = "0123456789abcdefghijklmnopqrstuvwxyz"
	n := (uint64(w) + 1) * 0x9E3779B97F4A7C15
	name := make([]byte, 16)
	for i := range name {
		name[i] = letters[n%36]
		n = n/36 + n<<7
	}
	return string(name)
}

// uid maps numbers to UIDs that are spread as if they were random.
func uid(n uint64) string {
	n = (n ^ n>>31) * 0x9E3779B97F4A7C15
	return fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x", n>>32, n>>16&0xffff, n>>4&0xfff, n&0xfff, n*0xC2B2AE3D27D4EB4F>>16)
}
