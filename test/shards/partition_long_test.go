//go:build long

package shards

import (
	"testing"

	"github.com/kcp-ipam/ipam/test/framework"
)

// An endpoint slice that is made while a shard is away does not list it. Nothing is freed that is
// held there.
func TestLong_PartitionASliceMadeWhileAShardIsAway(t *testing.T) {
	s := newScene(t)
	framework.KillShard(t, framework.OtherShard)
	s.remake(1)
	s.platform.WaitSwept(t, 12)
	s.holds()
	framework.StartShard(t, framework.OtherShard)
	s.keeps()
}
