// Package capi shows that the machines of Cluster API get their addresses, on a real Kubernetes with
// the kinds of Cluster API. Its controllers do not run: the tests do what they do.
package capi

import (
	"os"
	"testing"

	"github.com/kcp-ipam/ipam/test/framework"
)

func TestMain(m *testing.M) { os.Exit(framework.MainWithoutKCP(m)) }
