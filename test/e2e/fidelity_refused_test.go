package e2e

import (
	"fmt"
	"strings"
)

// listed returns a list of n entries. Each entry is format with its number.
func listed(n int, format string) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(format, i)
	}
	return strings.Join(list, ", ")
}

// invalid returns objects that a schema refuses, by its types or its rules, at CREATE and at a change.
func invalid() []call {
	const parent = "parentPoolRef: {name: parent}"
	var calls []call
	create := func(by, path, kind string, specs ...string) {
		for _, spec := range specs {
			calls = append(calls, call{
				name: kind + " " + spec[:min(len(spec), 80)], by: by, method: "POST", path: path + dryRun,
				body: body(kind, "metadata: {name: self}, spec: {"+spec+"}"),
			})
		}
	}
	create(byTenant, claimsAt, "IPClaim",
		`className: c, poolRef: {name: p}`, `className: ""`, `className: `+strings.Repeat("x", 257), `poolRef: {}`,
		`poolRef: {name: p, projectRef: {name: "root:acme:*"}}`, `prefixLength: 0`, `prefixLength: 129`, `prefixLength: "24"`, `prefixLength: 24.5`,
		`prefixLength: 33, ipFamily: IPv4`, `ipFamily: ipv4`, `address: banana`, `address: "2001:DB8::1"`, `address: 192.0.2.7/28`, `address: 0.0.0.0/0`,
		`address: 192.0.2.7, ipFamily: IPv6`, `address: 192.0.2.0/28, prefixLength: 29`, `reclaimPolicy: Keep`, `unmetPolicy: Fail`,
		`ownerRef: {name: web}`, `poolSelector: {matchLabels: {a: b}}`, `scope: {"1": {kind: K, name: x}}`, `scope: {project: {kind: K, name: x}}`,
		`target: ScopeRange`, `target: Nothing`, `className: null`, `scope: []`, `prefixLength: 0, ipFamily: x, className: ""`,
	)
	create(byTenant, poolsAt, "IPPool",
		``, `cidr: banana`, `cidr: 10.0.0.1/8`, `cidr: "2001:DB8::/32"`, `cidr: 10.0.0.0/8, ipFamily: IPv6`, `cidr: 10.0.0.0/8, ipFamily: IPv5`,
		`cidr: 10.0.0.0/8, prefixLength: 24`, parent+`, cidr: 10.0.0.0/8, prefixLength: 24`, parent+`, ipFamily: IPv4, prefixLength: 24`, parent,
		`parentPoolRef: {name: self}, prefixLength: 24`, parent+`, prefixLength: 25, address: 10.0.1.0/24`, parent+`, address: 0.0.0.0/0`,
		`cidr: 10.0.0.0/8, address: 10.0.0.0/8`, `parentClassName: c, prefixLength: 24, `+parent, `parentClassName: c, addressDomain: d`,
		`cidr: 10.0.0.0/8, allocation: {minPrefixLength: 28, maxPrefixLength: 24}`, `cidr: 10.0.0.0/8, allocation: {maxPrefixLength: 64}`,
		`cidr: 10.0.0.0/8, allocation: {maxPrefixLength: 4}`, `cidr: 10.0.0.0/8, allocation: {strategy: Random}`,
		`cidr: 10.0.0.0/8, reservations: {leading: 1}`, `cidr: 10.0.0.0/8, reservations: {leading: -1, unitPrefixLength: 32}`,
		`cidr: 10.0.0.0/8, excludedCIDRs: [10.0.0.0/16, 11.0.0.0/16]`, `cidr: 10.0.0.0/8, excludedCIDRs: [10.0.0.0/16, 10.0.0.0/16]`,
		`cidr: 10.0.0.0/8, excludedCIDRs: [`+listed(257, "10.0.%d.0/32")+`]`, `cidr: 10.0.0.0/8, classNames: [""]`, `cidr: 10.0.0.0/8, classNames: [twice, twice]`,
		`cidr: 192.0.2.128/28, gateway: 192.0.2.1`, `cidr: 192.0.2.128/28, gateway: 192.0.2.0, networkPrefixLength: 24`,
		`cidr: 10.0.0.0/24, gateway: banana`, `cidr: 10.0.0.0/24, networkPrefixLength: 25`, `cidr: 10.0.0.0/8, maxRetentionLease: soon`,
		`cidr: 10.0.0.0/8, releaseCooldown: 25h`, `cidr: 10.0.0.0/8, releaseCooldown: soon`, `cidr: 10.0.0.0/8, visibility: everybody`,
		`cidr: 10.0.0.0/8, consumers: ["*"]`, `cidr: 10.0.0.0/8, maxPerConsumer: "0"`, `cidr: 10.0.0.0/8, maxPerConsumer: 10`,
		`cidr: 10.0.0.0/8, slices: {prefixLength: 24}`, `cidr: [1], ipFamily: {}, classNames: x`,
	)
	create(byStaff, ownPools, "IPPool",
		`cidr: 10.0.0.0/8, slices: {prefixLength: 24}, allocation: {minPrefixLength: 25}`, `parentClassName: c, slices: {prefixLength: 24}`,
		`cidr: 10.0.0.0/8, slices: {prefixLength: 24}`, `cidr: 10.0.0.0/8, visibility: platform`)
	create(byStaff, ownClasses, "IPClass",
		``, `ipFamily: IPv4, allowedPrefixLengths: {min: 28, max: 24}`, `ipFamily: IPv4, allowedPrefixLengths: {min: 24, max: 33}`,
		`ipFamily: IPv4, defaultPrefixLength: 33`, `ipFamily: IPv4, allowedPrefixLengths: {min: 24, max: 28}, defaultPrefixLength: 29`,
		`ipFamily: IPv4, parameters: {a: `+strings.Repeat("b", 257)+`}`, `ipFamily: IPv4, consumers: ["root:*:a"]`, `ipFamily: IPv4, strategy: Random`,
		`ipFamily: IPv4, maxPerConsumer: "-1"`, `ipFamily: IPv4, releaseCooldown: 25h`, `ipFamily: IPv4, uniqueWithin: [project]`,
		`ipFamily: IPv4, poolPer: [network]`, `ipFamily: IPv4, uniqueWithin: ["a b"]`, `ipFamily: IPv4, reservations: {leading: 1, unitPrefixLength: 32}`,
		`ipFamily: IPv4, poolPer: [project], reservations: {leading: 1}`)
	create(byController, itsRecords, "IPAllocation", ``, `poolRef: {name: p}, ipFamily: IPv4, reclaimPolicy: Delete, claimRef: {name: x}`, `poolRef: {name: p}, ipFamily: x, reclaimPolicy: Delete`)
	return append(calls, changed()...)
}

// changed returns changes that a schema refuses, and changes that it has to admit.
func changed() []call {
	var calls []call
	change := func(path, spec string) {
		calls = append(calls, call{name: "change to " + spec, by: byTenant, method: "PATCH", path: path + dryRun, kind: kindMerge, body: `{"spec":{` + spec + `}}`})
	}
	calls = append(calls,
		call{name: "a claim with all that is immutable", by: byTenant, method: "POST", path: claimsAt, body: claim("fixed",
			"className: c, ipFamily: IPv4, prefixLength: 28, unmetPolicy: Wait, ownerRef: {kind: Pod, name: web}, scope: {vpc: {kind: VPC, name: x}}")},
		call{name: "a child", by: byTenant, method: "POST", path: poolsAt, body: pool("child", "parentPoolRef: {name: q}, prefixLength: 24")},
	)
	for _, spec := range []string{
		`"className":"other"`, `"className":null`, `"className":null,"poolRef":{"name":"p"}`, `"poolSelector":{}`, `"ipFamily":"IPv6"`, `"ipFamily":null`,
		`"prefixLength":29`, `"prefixLength":null`, `"address":"10.0.0.1"`, `"unmetPolicy":"Refuse"`, `"ownerRef":{"kind":"Pod","name":"db"}`, `"ownerRef":null`,
		`"scope":{"vpc":{"kind":"VPC","name":"y"}}`, `"scope":null`, `"target":"ScopeRange"`, `"reclaimPolicy":"Retain"`, `"reclaimPolicy":null`, `"reclaimPolicy":"Keep"`,
		`"retainedPolicy":"Reuse"`,
	} {
		change(claimsAt+"/fixed", spec)
	}
	for _, spec := range []string{
		`"cidr":"10.0.0.0/9"`, `"ipFamily":"IPv4"`, `"parentPoolRef":{"name":"q"},"prefixLength":24`, `"parentPoolRef":{"name":"q"},"prefixLength":24,"cidr":null`,
		`"addressDomain":"d"`, `"consumers":["root:a"]`, `"classNames":["a","a"]`, `"parentClassName":"c"`,
	} {
		change(poolsAt+"/patched", spec)
	}
	for _, spec := range []string{`"parentPoolRef":{"name":"r"}`, `"prefixLength":25`, `"address":"10.0.0.0/24"`, `"parentPoolRef":null,"prefixLength":null,"cidr":"10.0.0.0/8"`} {
		change(poolsAt+"/child", spec)
	}
	return calls
}

// policies returns objects that a schema admits, but a policy refuses.
func policies() []call {
	full := func(flow string) string { return body("IPPool", flow) }
	finalizers, labels := listed(17, "example.com/f%d"), listed(65, "l%d: x")
	return []call{
		{name: "a pool with a classRef", by: byTenant, method: "POST", path: poolsAt, body: pool("x", "cidr: 10.0.0.0/8, classRef: {name: c}")},
		{name: "a pool that says that it is a slice", by: byTenant, method: "POST", path: poolsAt, body: full("metadata: {name: x, labels: {ipam.miloapis.com/slice-of: u}}, spec: {cidr: 10.0.0.0/8}")},
		{name: "a pool that says for which scope it is", by: byTenant, method: "POST", path: poolsAt, body: full("metadata: {name: x, labels: {ipam.miloapis.com/provisioned-by: u}}, spec: {cidr: 10.0.0.0/8}")},
		{name: "too many finalizers", by: byTenant, method: "POST", path: poolsAt, body: full("metadata: {name: x, finalizers: [" + finalizers + "]}, spec: {cidr: 10.0.0.0/8}")},
		{name: "too many labels", by: byTenant, method: "POST", path: poolsAt, body: full("metadata: {name: x, labels: {" + labels + "}}, spec: {cidr: 10.0.0.0/8}")},
		{name: "the same by the controller", by: byController, method: "POST", path: itsPools, body: full("metadata: {name: made, labels: {ipam.miloapis.com/slice-of: u}}, spec: {cidr: 10.0.0.0/8, classRef: {name: c}}")},
		{name: "what the controller made is not the tenant's to change", by: byTenant, method: "PATCH", path: poolsAt + "/made", kind: kindMerge, body: `{"spec":{"classNames":["x"]}}`},
		{name: "nor to delete", by: byTenant, method: "DELETE", path: poolsAt + "/made"},
		{name: "nor is its label", by: byTenant, method: "PATCH", path: poolsAt + "/made", kind: kindMerge, body: `{"metadata":{"labels":null}}`},
		{name: "a pool takes the label of a slice", by: byTenant, method: "PATCH", path: poolsAt + "/patched", kind: kindMerge, body: `{"metadata":{"labels":{"ipam.miloapis.com/slice-of":"u"}}}`},
		{name: "a classRef that is added to a pool", by: byTenant, method: "PATCH", path: poolsAt + "/patched", kind: kindMerge, body: `{"spec":{"classRef":{"name":"c"}}}`},
		{name: "the controller deletes it", by: byController, method: "DELETE", path: itsPools + "/made"},
		{name: "a class has a status by the staff", by: byStaff, method: "PATCH", path: ownClasses + "/c/status", kind: kindMerge, body: `{"status":{"phase":"Ready"}}`, differs: "the simulated kcp knows no roles: a policy refuses"},
		{name: "a class has a status by the admin", by: byAdmin, method: "PATCH", path: ownClasses + "/c/status", kind: kindMerge, body: `{"status":{"phase":"Ready"}}`},
		{name: "a class has a status by the controller", by: byController, method: "PATCH", path: ownClasses + "/c/status", kind: kindMerge, body: `{"status":{"phase":"Ready"}}`},
		{name: "a deprecated field warns", by: byTenant, method: "POST", path: claimsAt + dryRun, body: claim("warned", "poolSelector: {matchLabels: {a: b}}")},
		{name: "what is wrong twice", by: byTenant, method: "POST", path: poolsAt, body: full("metadata: {name: x, finalizers: [" + finalizers + "], labels: {ipam.miloapis.com/slice-of: u}}, spec: {cidr: 10.0.0.0/8, classRef: {name: c}}")},
	}
}
