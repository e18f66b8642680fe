package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/version"

	"github.com/kcp-ipam/ipam/apis/ipam/v1controller1"
)

func TestIPClaim_Create(t *testing.T) {
	const exclude = "spec.className, spec.poolRef and spec.poolSelector exclude each other"
	tenantDoors(t)["IPClaim"].create(t, []refused{
		{``, ""},
		{`className: internal`, ""},
		{`className: internal, prefixLength: 28, ipFamily: IPv4, reclaimPolicy: Retain`, ""},
		{`poolRef: {name: p, projectRef: {name: "root:acme:net"}}, prefixLength: 64, ipFamily: IPv6`, ""},
		{`className: internal, unmetPolicy: Refuse`, ""},
		{`address: 192.0.2.7`, ""},
		{`address: 192.0.2.7, prefixLength: 32, ipFamily: IPv4`, ""},
		{`address: "2001:db8::1", prefixLength: 128, ipFamily: IPv6`, ""},
		{`address: 192.0.2.0/28, prefixLength: 28`, ""},
		{`ownerRef: {apiGroup: apps, kind: Deployment, namespace: default, name: web, uid: u}`, ""},
		// The older form of a claim.
		{`poolRef: {name: p}, prefixLength: 24, ipFamily: IPv4`, ""},
		{`poolSelector: {matchLabels: {tier: a}, matchExpressions: [{key: zone, operator: In, values: [b]}], ` +
			`projectRef: {name: "root:net"}}, prefixLength: 24, ipFamily: IPv4`, ""},

		{`className: c, poolRef: {name: p}`, exclude},
		{`className: c, poolSelector: {}`, exclude},
		{`poolRef: {name: p}, poolSelector: {}`, exclude},
		{`className: ""`, "at least 1 chars long"},
		{`className: ` + strings.Repeat("x", 257), "Too long: may not be more than 256"},
		{`poolRef: {}`, "Required value"},
		{`poolRef: {name: p, projectRef: {name: "root:acme:*"}}`, "invalid workspace"},
		{`poolRef: {name: p, projectRef: {name: "a b"}}`, "invalid workspace: write a path such as root:acme:web"},
		{`prefixLength: 0`, "should be greater than or equal to 1"},
		{`prefixLength: -1`, "should be greater than or equal to 1"},
		{`prefixLength: 129`, "should be less than or equal to 128"},
		{`prefixLength: 33, ipFamily: IPv4`, "spec.prefixLength must be 1 to 32 for IPv4"},
		{`ipFamily: ipv4`, `supported values: "IPv4", "IPv6"`},
		{`address: banana`, "invalid address: write an address such as 192.0.2.7"},
		{`address: "2001:DB8::1"`, "write 2001:db8::1"},
		{`address: "::ffff:10.0.0.1"`, "invalid address"},
		{`address: 192.0.2.7/28`, "invalid CIDR: 192.0.2.7/28 is not in network form; write 192.0.2.0/28"},
		{`address: 0.0.0.0/0`, "invalid address: 0.0.0.0/0 is not a block; write one of length 1 or more, such as 192.0.2.0/28"},
		{`address: "::/0"`, "invalid address: ::/0 is not a block"},
		{`address: 192.0.2.7, ipFamily: IPv6`, "address family of spec.ipFamily does not match spec.address"},
		{`address: 192.0.2.0/28, prefixLength: 29`, "spec.prefixLength does not match spec.address"},
		{`address: 192.0.2.0, prefixLength: 28`, "spec.prefixLength does not match spec.address"},
		{`reclaimPolicy: Keep`, `supported values: "Delete", "Retain"`},
		{`unmetPolicy: Fail`, `supported values: "Wait", "Refuse"`},
		{`ownerRef: {name: web}`, "spec.ownerRef.kind: Required value"},
	})
}

func TestIPClaim_Update(t *testing.T) {
	d := tenantDoors(t)["IPClaim"]
	d.update(t, "", [][3]string{
		{"reclaimPolicy: Delete", "reclaimPolicy: Retain", ""},
		{"reclaimPolicy: Delete", "", ""},
	})
	for _, tt := range [][3]string{
		{"className", "a", "b"},
		{"poolRef", "{name: p}", `{name: p, projectRef: {name: "root:a"}}`},
		{"poolSelector", "{matchLabels: {a: b}}", "{matchLabels: {a: c}}"},
		{"ipFamily", "IPv4", "IPv6"},
		{"prefixLength", "24", "25"},
		{"address", "192.0.2.1", "192.0.2.2"},
		{"unmetPolicy", "Wait", "Refuse"},
		{"ownerRef", "{kind: Pod, name: web}", "{kind: Pod, name: db}"},
	} {
		one, two, want := tt[0]+": "+tt[1], tt[0]+": "+tt[2], "spec."+tt[0]+" is immutable: create another claim"
		d.update(t, "", [][3]string{{one, two, want}, {one, "", want}})
	}
}

// The version in which the controller writes differs from v1alpha1 only by its subresource: a tenant who writes in it
// meets the same rules.
func TestIPClaim_HasTheSameRulesInBothVersions(t *testing.T) {
	for i, crd := range allCRDs(t, "IPClaim") {
		where := []string{"platform", "tenants"}[i]
		if len(crd.Spec.Versions) != 2 {
			t.Fatalf("%s: there are %d versions, want 2", where, len(crd.Spec.Versions))
		}
		first, second := crd.Spec.Versions[0], crd.Spec.Versions[1]
		if first.Name != "v1alpha1" || !first.Storage || !first.Served || first.Subresources.Status != nil {
			t.Errorf("%s: version %s: storage %t, served %t, status %v; want v1alpha1 stored, served, and without the subresource",
				where, first.Name, first.Storage, first.Served, first.Subresources.Status)
		}
		if second.Name != v1controller1.GroupVersion.Version || second.Storage || !second.Served || second.Subresources.Status == nil {
			t.Errorf("%s: version %s: storage %t, served %t, status %v; want %s served, with the subresource",
				where, second.Name, second.Storage, second.Served, second.Subresources.Status, v1controller1.GroupVersion.Version)
		}
		second.Name, second.Storage, second.Subresources = first.Name, first.Storage, first.Subresources
		if diff := cmp.Diff(first, second); diff != "" {
			t.Errorf("%s: the versions differ (-v1alpha1 +v1controller1):\n%s", where, diff)
		}
		if version.CompareKubeAwareVersionStrings("v1alpha1", v1controller1.GroupVersion.Version) <= 0 {
			t.Errorf("%s ranks before v1alpha1, and kubectl would prefer it", v1controller1.GroupVersion.Version)
		}
	}
}
