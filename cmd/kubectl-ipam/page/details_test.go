package page_test

import (
	"strings"
	"testing"

	"github.com/kcp-ipam/ipam/test/gen"
)

// The addresses that a pool withholds from claims are neither free nor to be planned.
func TestDetails_Withheld(t *testing.T) {
	t.Parallel()
	scene := town("")
	scene.Pools[0].Object = withFigures(gen.Pool("office", gen.Backs("internal"), gen.Gateway("192.0.2.1", 0)), "192.0.2.0/24", "256", "3", 1)
	scene.Pools[0].Held = nil
	for _, block := range []string{"192.0.2.0/32", "192.0.2.1/32", "192.0.2.255/32"} {
		said := shows(t, pages(scene), "/pool/office?block="+block, "reserved or excluded", "is never handed out")
		if strings.Contains(said, "What fits") {
			t.Errorf("%s is offered to be planned", block)
		}
	}
	shows(t, pages(scene), "/pool/office?block=192.0.2.2/32", "What fits")
}
