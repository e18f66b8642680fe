//go:build !long

package capi

import (
	"os"
	"testing"

	"github.com/kcp-ipam/ipam/test/framework"
)

// Without the long tests there is one Kubernetes, and no workspace.
func TestMain(m *testing.M) { os.Exit(framework.MainWithoutKCP(m)) }
