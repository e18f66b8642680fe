// Package e2e shows on a real kcp, with the real controller and real users, what the
// project promises.
package e2e

import (
	"os"
	"testing"

	"github.com/kcp-ipam/ipam/test/framework"
)

func TestMain(m *testing.M) { os.Exit(framework.Main(m)) }
