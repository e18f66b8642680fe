package e2e

import "strings"

// leaving returns calls that delete a namespace, and that unbind, while finalizers hold objects.
func leaving() []call {
	inGoing := func(path string) string { return strings.Replace(path, "default", "going", 1) }
	return []call{
		{name: "a claim in a namespace that goes", by: byTenant, method: "POST", path: inGoing(claimsAt), body: claim("goes", "")},
		{name: "its allocation", by: byController, method: "POST", path: inGoing(itsRecords), body: record("goes", "10.0.1.0/28", ", claimRef: {name: goes, uid: \"{uid:goes}\"}")},
		{name: "a namespace is deleted", by: byOwner, method: "DELETE", path: namespaces + "/going", differs: "a server gives a namespace more labels and fields"},
		{name: "nothing is made in it", by: byTenant, method: "POST", path: inGoing(claimsAt) + dryRun, body: claim("late", ""), until: 403},
		{name: "what is in it may change", by: byTenant, method: "PATCH", path: inGoing(claimsAt) + "/goes", kind: kindMerge, body: `{"metadata":{"labels":{"a":"b"}}}`},
		{name: "it is gone", by: byOwner, method: "GET", path: namespaces + "/going", until: 404},
		{name: "and its claim", by: byTenant, method: "GET", path: inGoing(claimsAt) + "/goes"},

		{name: "a pool that is held", by: byTenant, method: "POST", path: poolsAt, body: body("IPPool", "metadata: {name: holds, finalizers: [example.com/hold]}, spec: {cidr: 10.0.0.0/8}")},
		{name: "the last pool", by: byTenant, method: "POST", path: poolsAt, body: body("IPPool", "metadata: {name: "+marker+", labels: {tier: last}}, spec: {cidr: 10.0.0.0/8}")},
		{name: "the last claim", by: byTenant, method: "POST", path: claimsAt, body: claim(marker, "")},
		{name: "the last allocation", by: byController, method: "POST", path: itsRecords, body: record(marker, "10.0.2.0/28", "")},
		{name: "the binding is held", by: byMasters, method: "PATCH", path: bindings + "/ipam", kind: kindMerge, body: `{"metadata":{"finalizers":["apis.kcp.io/apibinding-finalizer","example.com/hold"]}}`, differs: "a server gives a binding more fields"},
		{name: "the binding is deleted", by: byOwner, method: "DELETE", path: bindings + "/ipam", differs: "a server gives a binding more fields"},
		{name: "its objects go", by: byTenant, method: "GET", path: claimsAt + "/" + marker, until: 404},
		{name: "pools, too", by: byTenant, method: "GET", path: poolsAt + "/" + marker, until: 404},
		{name: "but what is held", by: byTenant, method: "GET", path: poolsAt + "/holds"},
		{name: "nothing is made", by: byTenant, method: "POST", path: poolsAt, body: pool("late", "cidr: 10.0.0.0/8")},
		{name: "nothing is applied", by: byTenant, method: "PATCH", path: poolsAt + "/late?fieldManager=test", kind: kindApply, body: pool("late", "cidr: 10.0.0.0/8")},
		{name: "nothing is made by the controller", by: byController, method: "POST", path: itsPools, body: pool("late", "cidr: 10.0.0.0/8")},
		{name: "policies are asked", by: byTenant, method: "PATCH", path: poolsAt + "/holds", kind: kindMerge, body: `{"metadata":{"labels":{"ipam.miloapis.com/slice-of":"u"}}}`},
		{name: "rules are asked", by: byTenant, method: "PATCH", path: poolsAt + "/holds", kind: kindMerge, body: `{"spec":{"cidr":"10.0.0.0/9"}}`},
		{name: "it may change", by: byTenant, method: "PATCH", path: poolsAt + "/holds", kind: kindMerge, body: `{"metadata":{"labels":{"a":"b"}}}`},
		{name: "the controller writes its status", by: byController, method: "PATCH", path: itsPools + "/holds/status", kind: kindMerge, body: `{"status":{"phase":"Pending"}}`},
		{name: "it is let go", by: byController, method: "PATCH", path: itsPools + "/holds", kind: kindMerge, body: `{"metadata":{"finalizers":null}}`},
		{name: "the binding is there", by: byController, method: "GET", path: allBindings, differs: "a server gives a binding more fields"},
		{name: "the binding is let go", by: byMasters, method: "PATCH", path: bindings + "/ipam", kind: kindSteps, body: `[{"op":"remove","path":"/metadata/finalizers"}]`, differs: "a server gives a binding more fields"},
		{name: "the binding is gone", by: byOwner, method: "GET", path: bindings + "/ipam", until: 404},
		{name: "nothing is served", by: byTenant, method: "GET", path: claimsAt, until: 404},
		{name: "nothing is served virtually", by: byController, method: "GET", path: virtually + theAPI + "/ipclaims", until: 403},
		{name: "of all there is nothing", by: byController, method: "GET", path: allClaims, settles: true},
		{name: "no binding is left", by: byController, method: "GET", path: allBindings, settles: true},
	}
}
