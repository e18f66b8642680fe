//go:build long

package capi

import (
	"os"
	"testing"

	"github.com/kcp-ipam/ipam/test/framework"
)

func TestMain(m *testing.M) { os.Exit(framework.Main(m)) }
