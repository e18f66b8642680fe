// Package shards shows that the project keeps what it promises on a kcp of several shards.
package shards

import (
	"os"
	"testing"

	"github.com/kcp-ipam/ipam/test/framework"
)

func TestMain(m *testing.M) { os.Exit(framework.MainOnShards(m)) }
