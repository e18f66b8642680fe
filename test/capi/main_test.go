// Package capi shows that the machines of Cluster API get their addresses, on a real Kubernetes with
// the kinds of Cluster API, from pools there and from those of a workspace of a real kcp. The controllers
// of Cluster API do not run: the tests do what they do.
package capi

import (
	"os"
	"testing"

	"github.com/kcp-ipam/ipam/test/framework"
)

func TestMain(m *testing.M) { os.Exit(framework.Main(m)) }
