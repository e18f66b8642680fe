package capi

import (
	"encoding/json"
	"strings"
	"testing"

	capiv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"

	"github.com/kcp-ipam/ipam/test/framework"
)

// kubectl ipam check says which machines have no address, and why. Where the pools are in a workspace, it
// misses nothing else in the management cluster.
func checked(t *testing.T, s *scene) {
	machine := claim("checked", "IPPool", "checked")
	framework.Create(t, s, machine)
	s.refused(t, machine, capiv1.IPAddressClaimReadyPoolNotReadyReason)
	s.checks(t, "warning", "1 PoolNotReady, the first is default/checked: IPPool checked does not exist")
	s.offer(t, s.pool(t, "checked"))
	s.address(t, machine)
	s.checks(t, "ok", "IPAddressClaims for IPPools and IPClasses have their addresses")
	s.release(t, machine)
}

// checks compares what kubectl ipam check says of machines.
func (s *scene) checks(t *testing.T, result, found string) {
	t.Helper()
	var cli framework.CLI
	if s.beside {
		cli = s.management.CLI(t)
	} else {
		cli = s.platform.CLI(t, "cluster-admin")
	}
	ran := cli.Run(t, "check", "-o", "json")
	var said struct {
		Checks []struct{ Check, Result, Found string }
	}
	if err := json.Unmarshal([]byte(ran.Out), &said); err != nil || ran.Code != 0 {
		t.Fatalf("kubectl ipam check ends with %d, %v:\n%s%s", ran.Code, err, ran.Out, ran.Err)
	}
	last := said.Checks[len(said.Checks)-1]
	if last.Check != "machines" || last.Result != result || !strings.Contains(last.Found, found) {
		t.Errorf("the last check is %+v; want one of machines, %s: %s", last, result, found)
	}
}
