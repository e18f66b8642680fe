package page_test

import (
	"net/netip"
	"testing"

	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/page"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
	"github.com/kcp-ipam/ipam/test/gen"
)

// Blocks of two families, or outside of the pool, come from two pools of one name, one after the
// other. They do not widen the window of a pool, and take nothing from its space.
func TestPool_BlocksOfAFormerPool(t *testing.T) {
	t.Parallel()
	held := []space.Holding{{Block: netip.MustParsePrefix("198.51.100.0/28")}, {Block: netip.MustParsePrefix("2001:db8::/64")}, {Block: netip.MustParsePrefix("198.51.100.16/28")}}
	unseen := page.Pool{Name: "edge", Workspace: "root:net", Held: held}
	if got, want := unseen.Window(), netip.MustParsePrefix("198.51.100.0/25"); got != want {
		t.Errorf("the window is %s, want %s", got, want)
	}
	scene := town("")
	scene.Pools = []page.Pool{unseen}
	for _, path := range []string{"/", "/pool/edge?workspace=root:net", "/pool/edge/list?workspace=root:net"} {
		shows(t, pages(scene), path, "edge")
	}
	seen := page.Pool{Name: "edge", Object: withFigures(gen.Pool("edge"), "198.51.100.0/28", "16", "16", 100), Held: held}
	if got := seen.Space().Known().String(); got != "16" {
		t.Errorf("the pool of 16 addresses knows of %s", got)
	}
	of, err := space.Of(seen.Object, held)
	if err != nil || of.Known().String() != "16" {
		t.Errorf("space.Of knows of %s: %v; want 16", of.Known(), err)
	}
}
