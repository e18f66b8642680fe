package e2e

import (
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// These are the paths of the calls.
const (
	theAPI     = "/apis/ipam.miloapis.com/v1alpha1"
	theWrites  = "/apis/ipam.miloapis.com/v1controller1"
	inTenant   = "/clusters/{path}"
	inPlatform = "/clusters/{platformPath}"
	everywhere = "{vw}/clusters/*"
	virtually  = "{vw}/clusters/{tenant}"

	namespaces  = inTenant + "/api/v1/namespaces"
	claimsAt    = inTenant + theAPI + "/namespaces/default/ipclaims"
	records     = inTenant + theAPI + "/namespaces/default/ipallocations"
	poolsAt     = inTenant + theAPI + "/ippools"
	bindings    = inTenant + "/apis/apis.kcp.io/v1alpha2/apibindings"
	ownPools    = inPlatform + theAPI + "/ippools"
	ownClasses  = inPlatform + theAPI + "/ipclasses"
	itsClaims   = virtually + theWrites + "/namespaces/default/ipclaims"
	itsRecords  = virtually + theAPI + "/namespaces/default/ipallocations"
	itsPools    = virtually + theAPI + "/ippools"
	past        = virtually + theAPI + "/namespaces/default/ipclaims?fieldSelector=metadata.name%3Da&resourceVersionMatch=Exact&resourceVersion="
	allClaims   = everywhere + theWrites + "/ipclaims"
	allRecords  = everywhere + theAPI + "/ipallocations"
	allPools    = everywhere + theAPI + "/ippools"
	allBindings = everywhere + "/apis/apis.kcp.io/v1alpha2/apibindings"

	kindMerge = "application/merge-patch+json"
	kindSteps = "application/json-patch+json"
	kindApply = "application/apply-patch+yaml"

	dryRun = "?dryRun=All"
	// marker is an object of each kind. Its deletion ends the watches.
	marker = "zz-the-last"
)

// noOwners says why a server-side apply gets another answer if the server has to know the owner of a field.
const noOwners = "the simulated kcp keeps no owners of fields"

// noAuthorizer says why a request gets another answer if a server refuses it before it looks for the object.
const noAuthorizer = "the simulated kcp asks no authorizer, and answers 404 where a server answers 403"

// body returns an object as JSON, from YAML in flow style.
func body(kind, flow string) string {
	text, err := yaml.YAMLToJSON([]byte("{apiVersion: ipam.miloapis.com/v1alpha1, kind: " + kind + ", " + flow + "}"))
	if err != nil {
		panic(fmt.Errorf("%s: %w", flow, err))
	}
	return string(text)
}

// claimsIn returns the path of the claims of a namespace.
func claimsIn(namespace string) string {
	return inTenant + theAPI + "/namespaces/" + namespace + "/ipclaims"
}

func claim(name, spec string) string {
	return body("IPClaim", "metadata: {name: "+name+"}, spec: {"+spec+"}")
}

func pool(name, spec string) string {
	return body("IPPool", "metadata: {name: "+name+"}, spec: {"+spec+"}")
}

// record returns an IPAllocation of a claim.
func record(name, block, claimRef string) string {
	return body("IPAllocation", "metadata: {name: "+name+"}, spec: {poolRef: {name: p}, ipFamily: IPv4, reclaimPolicy: Delete"+claimRef+
		"}, status: {allocatedCIDR: "+block+"}")
}

// inController returns an object in the version that the controller writes.
func inController(object string) string {
	return strings.Replace(object, "ipam.miloapis.com/v1alpha1", "ipam.miloapis.com/v1controller1", 1)
}

// streams returns the watches. Each ends with the deletion of a marker.
func streams() []call {
	return []call{
		{name: "pools of a workspace", by: byTenant, method: "GET", path: poolsAt + "?watch=true&timeoutSeconds=300"},
		{name: "pools with a label", by: byTenant, method: "GET", path: poolsAt + "?watch=true&labelSelector=tier"},
		{name: "all pools", by: byController, method: "GET", path: allPools + "?watch=true"},
		{name: "all claims", by: byController, method: "GET", path: allClaims + "?watch=true"},
		{name: "all allocations", by: byController, method: "GET", path: allRecords + "?watch=true"},
	}
}

// founding returns calls that make the objects for all other calls.
func founding() []call {
	return []call{
		{name: "no such namespace", by: byTenant, method: "POST", path: claimsIn("going"), body: claim("early", "")},
		{name: "a namespace", by: byOwner, method: "POST", path: namespaces, body: `{"metadata":{"name":"going"}}`, differs: "a server gives a namespace more labels and fields"},
		{name: "its namespace is known", by: byTenant, method: "POST", path: claimsIn("going") + dryRun, body: claim("early", ""), settles: true},
		{name: "a class", by: byStaff, method: "POST", path: ownClasses, body: body("IPClass", "metadata: {name: c}, spec: {ipFamily: IPv4}")},
		{name: "a pool of the platform", by: byStaff, method: "POST", path: ownPools, body: pool("p", "cidr: 10.0.0.0/8, visibility: platform, classNames: [c]")},
		{name: "no other visibility for tenants", by: byTenant, method: "POST", path: poolsAt, body: pool("p", "cidr: 10.0.0.0/8, visibility: platform")},
		{name: "a first claim, so that there is something to watch", by: byTenant, method: "POST", path: claimsAt, body: claim("first", "className: c")},
		{name: "a first allocation", by: byController, method: "POST", path: itsRecords, body: record("first", "10.0.0.0/28", ", claimRef: {name: first, uid: \"{uid:first}\"}")},
		{name: "a first pool", by: byTenant, method: "POST", path: poolsAt, body: pool("first", "cidr: 10.9.0.0/16")},
	}
}

// lifecycle returns calls that create, read, update and delete.
func lifecycle() []call {
	full := func(flow string) string { return body("IPPool", flow) }
	return []call{
		{name: "a dry run stores nothing", by: byTenant, method: "POST", path: claimsAt + dryRun, body: claim("a", "className: c, pruned: 1")},
		{name: "nothing was stored", by: byTenant, method: "GET", path: claimsAt + "/a"},
		{name: "create", by: byTenant, method: "POST", path: claimsAt, body: claim("a", "className: c, pruned: 1")},
		{name: "create again", by: byTenant, method: "POST", path: claimsAt, body: claim("a", "className: c")},
		{name: "create again dry", by: byTenant, method: "POST", path: claimsAt + dryRun, body: claim("a", "className: c")},
		{name: "read", by: byTenant, method: "GET", path: claimsAt + "/a"},
		{name: "read by the ID of the cluster", by: byTenant, method: "GET", path: strings.Replace(claimsAt, "{path}", "{tenant}", 1) + "/a"},
		{name: "read in the other version", by: byController, method: "GET", path: itsClaims + "/a"},
		{name: "read virtually", by: byController, method: "GET", path: virtually + theAPI + "/namespaces/default/ipclaims/a"},
		{name: "read what is not there", by: byTenant, method: "GET", path: claimsAt + "/none"},
		{name: "read a kind that is not there", by: byTenant, method: "GET", path: inTenant + theAPI + "/nothings/none", differs: noAuthorizer},
		{name: "read in a version that is not there", by: byTenant, method: "GET", path: strings.Replace(claimsAt, "v1alpha1", "v9", 1)},
		{name: "read in another namespace", by: byTenant, method: "GET", path: strings.Replace(claimsAt, "default", "going", 1) + "/a"},
		{name: "create with no kind", by: byTenant, method: "POST", path: claimsAt, body: `{"metadata":{"name":"kindless"},"spec":{}}`},
		{name: "create another kind", by: byTenant, method: "POST", path: claimsAt, body: pool("odd", "cidr: 10.0.0.0/8")},
		{name: "create another version", by: byTenant, method: "POST", path: claimsAt, body: inController(claim("odd", ""))},
		{name: "create in another namespace", by: byTenant, method: "POST", path: claimsAt, body: body("IPClaim", "metadata: {name: odd, namespace: going}, spec: {}")},
		{name: "create without a name", by: byTenant, method: "POST", path: claimsAt, body: body("IPClaim", "metadata: {}, spec: {}")},
		{name: "create what is no JSON", by: byTenant, method: "POST", path: claimsAt, body: `{`},
		{name: "create with a name that is none", by: byTenant, method: "POST", path: claimsAt, body: claim("A_", "")},
		{name: "create with a label that is none", by: byTenant, method: "POST", path: poolsAt, body: full("metadata: {name: l, labels: {a: \"b c\"}}, spec: {cidr: 10.0.0.0/8}")},
		{name: "create with a finalizer that is none", by: byTenant, method: "POST", path: poolsAt, body: full("metadata: {name: l, finalizers: [\"a b\"]}, spec: {cidr: 10.0.0.0/8}")},
		{name: "create with a UID, a version and a time", by: byTenant, method: "POST", path: poolsAt, body: full("metadata: {name: forged, uid: forged, creationTimestamp: \"2001-01-01T00:00:00Z\", generation: 7}, spec: {cidr: 10.0.0.0/8}")},
		{name: "create with a resourceVersion", by: byTenant, method: "POST", path: poolsAt, body: full("metadata: {name: versioned, resourceVersion: \"1\"}, spec: {cidr: 10.0.0.0/8}")},
		{name: "create with a time of deletion", by: byTenant, method: "POST", path: poolsAt, body: full("metadata: {name: going, deletionTimestamp: \"2001-01-01T00:00:00Z\", deletionGracePeriodSeconds: 3}, spec: {cidr: 10.0.0.0/8}")},
		{name: "generate a name", by: byTenant, method: "POST", path: poolsAt, body: full("metadata: {generateName: gen-}, spec: {cidr: 10.0.0.0/8}")},
		{name: "delete it", by: byTenant, method: "DELETE", path: poolsAt + "/{generated}"},
		{name: "no POST to an object", by: byTenant, method: "POST", path: claimsAt + "/a", body: claim("a", "")},

		{name: "update", by: byTenant, method: "PUT", path: poolsAt + "/forged", body: full("metadata: {name: forged, resourceVersion: \"{rv:forged}\", labels: {tier: one}}, spec: {cidr: 10.0.0.0/8, classNames: [x]}")},
		{name: "update what has changed", by: byTenant, method: "PUT", path: poolsAt + "/forged", body: full("metadata: {name: forged, resourceVersion: \"1\"}, spec: {cidr: 10.0.0.0/8}")},
		{name: "update to the same", by: byTenant, method: "PUT", path: poolsAt + "/forged", body: full("metadata: {name: forged, resourceVersion: \"{rv:forged}\", labels: {tier: one}}, spec: {cidr: 10.0.0.0/8, classNames: [x]}")},
		{name: "update without a version", by: byTenant, method: "PUT", path: poolsAt + "/forged", body: full("metadata: {name: forged}, spec: {cidr: 10.0.0.0/8}")},
		{name: "update another UID", by: byTenant, method: "PUT", path: poolsAt + "/forged", body: full("metadata: {name: forged, uid: other, resourceVersion: \"{rv:forged}\"}, spec: {cidr: 10.0.0.0/8}")},
		{name: "update what is not there", by: byTenant, method: "PUT", path: poolsAt + "/none", body: full("metadata: {name: none, resourceVersion: \"1\"}, spec: {cidr: 10.0.0.0/8}")},
		{name: "update another name", by: byTenant, method: "PUT", path: poolsAt + "/forged", body: full("metadata: {name: other, resourceVersion: \"{rv:forged}\"}, spec: {cidr: 10.0.0.0/8}")},
		{name: "update dry", by: byTenant, method: "PUT", path: poolsAt + "/forged" + dryRun, body: full("metadata: {name: forged, resourceVersion: \"{rv:forged}\"}, spec: {cidr: 10.0.0.0/8}")},
		{name: "update the metadata alone", by: byTenant, method: "PUT", path: poolsAt + "/forged", body: full("metadata: {name: forged, resourceVersion: \"{rv:forged}\", labels: {tier: two}, annotations: {a: b}}, spec: {cidr: 10.0.0.0/8, classNames: [x]}")},
		{name: "take the label that a watch selects", by: byTenant, method: "PUT", path: poolsAt + "/forged", body: full("metadata: {name: forged, resourceVersion: \"{rv:forged}\"}, spec: {cidr: 10.0.0.0/8, classNames: [x]}")},

		{name: "delete another UID", by: byTenant, method: "DELETE", path: poolsAt + "/forged", body: `{"preconditions":{"uid":"other"}}`},
		{name: "delete another version", by: byTenant, method: "DELETE", path: poolsAt + "/forged", body: `{"preconditions":{"resourceVersion":"1"}}`},
		{name: "delete dry", by: byTenant, method: "DELETE", path: poolsAt + "/forged" + dryRun},
		{name: "delete dry by its options", by: byTenant, method: "DELETE", path: poolsAt + "/forged", body: `{"dryRun":["All"]}`},
		{name: "delete", by: byTenant, method: "DELETE", path: poolsAt + "/forged", body: `{"preconditions":{"uid":"{uid:forged}","resourceVersion":"{rv:forged}"}}`},
		{name: "delete again", by: byTenant, method: "DELETE", path: poolsAt + "/forged"},

		{name: "create with a finalizer", by: byTenant, method: "POST", path: poolsAt, body: full("metadata: {name: held, finalizers: [example.com/a, example.com/b]}, spec: {cidr: 10.0.0.0/8}")},
		{name: "delete dry what is held", by: byTenant, method: "DELETE", path: poolsAt + "/held" + dryRun},
		{name: "delete what is held", by: byTenant, method: "DELETE", path: poolsAt + "/held"},
		{name: "delete again what is held", by: byTenant, method: "DELETE", path: poolsAt + "/held"},
		{name: "create again what is held", by: byTenant, method: "POST", path: poolsAt, body: pool("held", "cidr: 10.0.0.0/8")},
		{name: "no finalizer is added", by: byTenant, method: "PATCH", path: poolsAt + "/held", kind: kindMerge, body: `{"metadata":{"finalizers":["example.com/a","example.com/b","example.com/c"]}}`},
		{name: "what is held may change", by: byTenant, method: "PATCH", path: poolsAt + "/held", kind: kindMerge, body: `{"spec":{"classNames":["y"]}}`},
		{name: "one finalizer goes", by: byTenant, method: "PATCH", path: poolsAt + "/held", kind: kindMerge, body: `{"metadata":{"finalizers":["example.com/a"]}}`},
		{name: "the last one goes dry", by: byTenant, method: "PATCH", path: poolsAt + "/held" + dryRun, kind: kindMerge, body: `{"metadata":{"finalizers":null}}`},
		{name: "the last one goes", by: byTenant, method: "PATCH", path: poolsAt + "/held", kind: kindMerge, body: `{"metadata":{"finalizers":null}}`},
		{name: "it is gone", by: byTenant, method: "GET", path: poolsAt + "/held"},
		{name: "delete a claim", by: byTenant, method: "DELETE", path: claimsAt + "/a"},
	}
}
