package directory

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Workspaces that went out of sight long ago take no memory.
func TestHidden_ForgetsOldWorkspaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h hidden
		for i := range 100 {
			h.hide(ledger.ClusterName(strconv.Itoa(i)))
			<-time.After(time.Second)
		}
		<-time.After(2 * forgetHidden)
		h.hide("last")
		if len(h.since) != 1 || !h.Hidden("last", time.Minute) {
			t.Errorf("%d workspaces are remembered, want the last one", len(h.since))
		}
	})
}
