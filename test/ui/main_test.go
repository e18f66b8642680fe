// Package ui walks through the pages of kubectl ipam ui with a real browser, on a real kcp.
package ui

import (
	"os"
	"testing"

	"github.com/kcp-ipam/ipam/test/framework"
)

func TestMain(m *testing.M) { os.Exit(framework.Main(m)) }
