package pool

import (
	"strings"
	"testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/screen"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/stage"
)

// A server that reports an impossible share does not end the program.
func TestBar_ImpossibleShare(t *testing.T) {
	t.Parallel()
	for percent, full := range map[float64]int{-5: 0, 0.05: 0, 3: 0, 4: 1, 0: 0, 100: 16, 250: 16, 1e300: 16} {
		drawn := string(bar(screen.Paint(false), stage.Ready(gen.Pool("p"), "10.0.0.0/8", ipamv1alpha1.IPv4, percent, 0)))
		if got := strings.Count(drawn, "█"); got != full {
			t.Errorf("%v%% is drawn as %q with %d full cells; want %d", percent, drawn, got, full)
		}
	}
}
