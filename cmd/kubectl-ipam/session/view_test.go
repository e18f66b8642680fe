package session

import (
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A caller's credential is sent only to the caller's kcp.
func TestTrusts_RefusesOtherServers(t *testing.T) {
	t.Parallel()
	const host = "https://kcp.example/clusters/root:acme"
	system, own := rest.TLSClientConfig{}, rest.TLSClientConfig{CAData: []byte("x")}
	for name, test := range map[string]struct {
		host, endpoint string
		tls            rest.TLSClientConfig
		trusted        bool
	}{
		"the same server":              {host, "https://kcp.example/services/apiexport/a/ipam", system, true},
		"the same port, written out":   {host, "https://kcp.example:443/services/apiexport/a/ipam", system, true},
		"another port":                 {host, "https://kcp.example:6443/services/apiexport/a/ipam", system, false},
		"another server":               {host, "https://evil.example/services/apiexport/a/ipam", system, false},
		"a shard, by a CA":             {host, "https://shard-1.example/services/apiexport/a/ipam", own, true},
		"a shard, by a CA in a file":   {host, "https://shard-1.example/services/apiexport/a/ipam", rest.TLSClientConfig{CAFile: "ca.crt"}, true},
		"another server, not verified": {host, "https://evil.example/services/apiexport/a/ipam", rest.TLSClientConfig{Insecure: true}, false},
		"without TLS":                  {host, "http://kcp.example/services/apiexport/a/ipam", own, false},
		"without TLS, on its port":     {host, "http://kcp.example:443/services/apiexport/a/ipam", system, false},
		"a server without TLS":         {"http://127.0.0.1:8001", "http://127.0.0.1:8001/services/apiexport/a/ipam", system, true},
		"a workspace, or a mount":      {host, "https://kcp.example/clusters/root:evil:mount", own, false},
		"a path that climbs":           {host, "https://kcp.example/services/apiexport/../../clusters/root:evil", own, false},
		"a path that climbs, encoded":  {host, "https://kcp.example/services/apiexport/%2e%2e/%2e%2e/clusters/root:evil", own, false},
		"a user":                       {host, "https://kcp.example@evil.example/services/apiexport/a/ipam", system, false},
		"a query":                      {host, "https://kcp.example/services/apiexport/a?x=", system, false},
		"no URL":                       {host, "https://kcp.example:x/services/apiexport/a", own, false},
		"empty":                        {host, "", own, false},
	} {
		err := trusts(&rest.Config{Host: test.host, TLSClientConfig: test.tls}, test.endpoint)
		if (err == nil) != test.trusted {
			t.Errorf("%s: trusts(%s) = %v, want it trusted: %v", name, test.endpoint, err, test.trusted)
		}
	}
}

// Only on the platform does the output say how to find the workspace that holds addresses without an IPAllocation.
func TestUnrecorded_AdvisesOnlyThePlatform(t *testing.T) {
	if hint := (&View{}).Unrecorded("10.0.0.0/24"); hint != "" {
		t.Errorf("a tenant is told %q, want nothing", hint)
	}
	if hint := (&View{Tenants: []client.Reader{nil}}).Unrecorded("10.0.0.0/24"); !strings.Contains(hint, "ipam-controller history 10.0.0.0/24") {
		t.Errorf("the platform is told %q, want the command that names the workspaces", hint)
	}
}

// If two networks have the same CIDR in one pool, their pools are shown with their networks.
func TestVisible_TellsOverlappingNetworksApart(t *testing.T) {
	pools := []ipamv1alpha1.IPPool{*gen.Pool("root")}
	for _, name := range []string{"red", "blue"} {
		pool := gen.Pool("net-"+name, gen.ChildOf("root", 24), gen.Within("network", name, "location", "ams"))
		pool.Status.AllocatedCIDR, pool.Status.UniqueWithin = "10.0.0.0/24", []string{"network"}
		pools = append(pools, *pool)
	}
	root := (&View{}).Visible(pools, nil)[0]
	if len(root.Held) != 2 || root.Held[0].Scope != "network=blue" || root.Held[1].Scope != "network=red" {
		t.Errorf("the pool holds %+v; want each network with its scope", root.Held)
	}
	if within := root.Within(ipamv1alpha1.Scope(gen.Within("network", "red"))); len(within.Held) != 1 || within.Held[0].Name != "net-red" {
		t.Errorf("a claim in network red finds %+v; want that network alone", within.Held)
	}
}
