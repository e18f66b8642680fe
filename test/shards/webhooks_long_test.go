//go:build long

package shards

import (
	"testing"

	"github.com/kcp-ipam/ipam/test/framework"
)

// Every shard asks the webhooks that are registered in the platform workspace, on one of them.
func TestLong_Webhooks(t *testing.T) {
	t.Parallel()
	platform := framework.NewPlatform(t)
	platform.StartController(t)
	platform.WaitWebhooks(t, platform.TenantOn(t, framework.RootShard), platform.TenantOn(t, framework.OtherShard))
}
