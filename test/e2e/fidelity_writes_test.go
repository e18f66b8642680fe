package e2e

import "strings"

// patches returns patches of all types.
func patches() []call {
	at := poolsAt + "/patched"
	return []call{
		{name: "a pool to patch", by: byTenant, method: "POST", path: poolsAt, body: pool("patched", "cidr: 10.0.0.0/8")},
		{name: "merge", by: byTenant, method: "PATCH", path: at, kind: kindMerge, body: `{"metadata":{"labels":{"tier":"a"}},"spec":{"classNames":["x","y"]}}`},
		{name: "merge what is the same", by: byTenant, method: "PATCH", path: at, kind: kindMerge, body: `{"metadata":{"labels":{"tier":"a"}}}`},
		{name: "merge nothing", by: byTenant, method: "PATCH", path: at, kind: kindMerge, body: `{}`},
		{name: "merge what is pruned", by: byTenant, method: "PATCH", path: at, kind: kindMerge, body: `{"spec":{"pruned":{"a":1}}}`},
		{name: "merge an older version", by: byTenant, method: "PATCH", path: at, kind: kindMerge, body: `{"metadata":{"resourceVersion":"1"}}`},
		{name: "merge the same version", by: byTenant, method: "PATCH", path: at, kind: kindMerge, body: `{"metadata":{"resourceVersion":"{rv:patched}","annotations":{"a":"b"}}}`},
		{name: "merge another UID", by: byTenant, method: "PATCH", path: at, kind: kindMerge, body: `{"metadata":{"uid":"other"}}`},
		{name: "merge another name", by: byTenant, method: "PATCH", path: at, kind: kindMerge, body: `{"metadata":{"name":"other"}}`},
		{name: "merge another generation and time", by: byTenant, method: "PATCH", path: at, kind: kindMerge, body: `{"metadata":{"generation":99,"creationTimestamp":"2001-01-01T00:00:00Z"}}`},
		{name: "merge another cluster", by: byTenant, method: "PATCH", path: at, kind: kindMerge, body: `{"metadata":{"annotations":{"kcp.io/cluster":"other"}}}`},
		{name: "merge no cluster", by: byTenant, method: "PATCH", path: at, kind: kindMerge, body: `{"metadata":{"annotations":null}}`},
		{name: "merge a time of deletion", by: byTenant, method: "PATCH", path: at, kind: kindMerge, body: `{"metadata":{"deletionTimestamp":"2001-01-01T00:00:00Z"}}`},
		{name: "merge a field to its default", by: byTenant, method: "PATCH", path: at, kind: kindMerge, body: `{"spec":{"visibility":null}}`},
		{name: "merge a required field away", by: byTenant, method: "PATCH", path: at, kind: kindMerge, body: `{"spec":{"cidr":null}}`},
		{name: "merge what is no JSON", by: byTenant, method: "PATCH", path: at, kind: kindMerge, body: `{`},
		{name: "merge dry", by: byTenant, method: "PATCH", path: at + dryRun, kind: kindMerge, body: `{"spec":{"classNames":["z"]}}`},
		{name: "merge what is not there", by: byTenant, method: "PATCH", path: poolsAt + "/none", kind: kindMerge, body: `{}`},
		{name: "steps", by: byTenant, method: "PATCH", path: at, kind: kindSteps, body: `[{"op":"test","path":"/spec/classNames/0","value":"x"},{"op":"replace","path":"/spec/classNames/0","value":"v"}]`},
		{name: "steps whose test fails", by: byTenant, method: "PATCH", path: at, kind: kindSteps, body: `[{"op":"test","path":"/spec/classNames/0","value":"x"}]`},
		{name: "steps to where nothing is", by: byTenant, method: "PATCH", path: at, kind: kindSteps, body: `[{"op":"remove","path":"/spec/none"}]`},
		{name: "steps with the version", by: byTenant, method: "PATCH", path: at, kind: kindSteps, body: `[{"op":"test","path":"/metadata/resourceVersion","value":"1"}]`},
		{name: "a strategic merge", by: byTenant, method: "PATCH", path: at, kind: "application/strategic-merge-patch+json", body: `{}`},
		{name: "another type of patch", by: byTenant, method: "PATCH", path: at, kind: "text/plain", body: `{}`},

		{name: "apply makes an object", by: byTenant, method: "PATCH", path: poolsAt + "/applied?fieldManager=test", kind: kindApply, body: pool("applied", "cidr: 10.0.0.0/8, classNames: [a]")},
		{name: "apply again", by: byTenant, method: "PATCH", path: poolsAt + "/applied?fieldManager=test", kind: kindApply, body: pool("applied", "cidr: 10.0.0.0/8, classNames: [a]")},
		{name: "apply a change", by: byTenant, method: "PATCH", path: poolsAt + "/applied?fieldManager=test", kind: kindApply, body: pool("applied", "cidr: 10.0.0.0/8, classNames: [b], maxPerConsumer: \"8\"")},
		{name: "apply what is refused", by: byTenant, method: "PATCH", path: poolsAt + "/applied?fieldManager=test", kind: kindApply, body: pool("applied", "cidr: 10.0.0.0/9")},
		{name: "apply without a manager", by: byTenant, method: "PATCH", path: poolsAt + "/applied", kind: kindApply, body: pool("applied", "cidr: 10.0.0.0/8")},
		{name: "apply another name", by: byTenant, method: "PATCH", path: poolsAt + "/applied?fieldManager=test", kind: kindApply, body: pool("other", "cidr: 10.0.0.0/8")},
		{name: "apply dry", by: byTenant, method: "PATCH", path: poolsAt + "/dry?fieldManager=test&dryRun=All", kind: kindApply, body: pool("dry", "cidr: 10.0.0.0/8")},
		{name: "apply by another manager", by: byTenant, method: "PATCH", path: poolsAt + "/applied?fieldManager=other", kind: kindApply, body: pool("applied", "cidr: 10.0.0.0/8, maxPerConsumer: \"9\""), differs: noOwners},
		{name: "apply by another manager with force", by: byTenant, method: "PATCH", path: poolsAt + "/applied?fieldManager=other&force=true", kind: kindApply, body: pool("applied", "cidr: 10.0.0.0/8, maxPerConsumer: \"9\"")},
		{name: "apply less", by: byTenant, method: "PATCH", path: poolsAt + "/applied?fieldManager=test&dryRun=All", kind: kindApply, body: pool("applied", "cidr: 10.0.0.0/8"), differs: noOwners},
		{name: "the applied one goes", by: byTenant, method: "DELETE", path: poolsAt + "/applied"},
	}
}

// statuses returns changes of a status, which only the controller may write.
func statuses() []call {
	bound := `{"status":{"phase":"Bound","allocatedCIDR":"10.0.0.0/28","unknown":1}}`
	inUse := `{"status":{"phase":"Ready","conditions":[{"type":"InUse","status":"True","reason":"InUse","message":"held by IPClaim default/s","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`
	return []call{
		{name: "a claim with a status", by: byTenant, method: "POST", path: claimsAt, body: body("IPClaim", "metadata: {name: s}, spec: {}, status: {phase: Bound}")},
		{name: "a claim with an empty status", by: byTenant, method: "POST", path: claimsAt, body: body("IPClaim", "metadata: {name: empty}, spec: {}, status: {}")},
		{name: "a claim", by: byTenant, method: "POST", path: claimsAt, body: claim("s", "className: c")},
		{name: "a claim in the version of the controller", by: byTenant, method: "POST", path: strings.Replace(claimsAt, "v1alpha1", "v1controller1", 1), body: inController(claim("odd", ""))},
		{name: "a status by a patch", by: byTenant, method: "PATCH", path: claimsAt + "/s", kind: kindMerge, body: bound},
		{name: "no subresource", by: byTenant, method: "PATCH", path: claimsAt + "/s/status", kind: kindMerge, body: bound, differs: "the simulated kcp knows no roles, and answers 404 after them"},
		{name: "no subresource for masters", by: byMasters, method: "PATCH", path: claimsAt + "/s/status", kind: kindMerge, body: bound},
		{name: "a status of the tenant", by: byTenant, method: "PATCH", path: strings.Replace(claimsAt, "v1alpha1", "v1controller1", 1) + "/s/status", kind: kindMerge, body: bound, differs: "the simulated kcp knows no roles: a policy refuses"},
		{name: "a status by the controller", by: byController, method: "PATCH", path: itsClaims + "/s/status", kind: kindMerge, body: bound},
		{name: "the same status again", by: byController, method: "PATCH", path: itsClaims + "/s/status", kind: kindMerge, body: bound},
		{name: "a status of a type that it is not", by: byController, method: "PATCH", path: itsClaims + "/s/status", kind: kindMerge, body: `{"status":{"phase":"Nowhere"}}`},
		{name: "a status with a spec", by: byController, method: "PATCH", path: itsClaims + "/s/status", kind: kindMerge, body: `{"metadata":{"labels":{"a":"b"}},"spec":{"className":"other"},"status":{"phase":"Pending"}}`},
		{name: "a status of a version that was", by: byController, method: "PATCH", path: itsClaims + "/s/status", kind: kindMerge, body: `{"metadata":{"resourceVersion":"1"},"status":{"phase":"Pending"}}`},
		{name: "a status of a claim that is not there", by: byController, method: "PATCH", path: itsClaims + "/none/status", kind: kindMerge, body: bound},
		{name: "a spec by the controller", by: byController, method: "PATCH", path: itsClaims + "/s", kind: kindMerge, body: `{"metadata":{"labels":{"c":"d"}},"status":{"phase":"Bound"}}`},
		{name: "read the status", by: byController, method: "GET", path: itsClaims + "/s/status"},
		{name: "its labels by the tenant", by: byTenant, method: "PATCH", path: claimsAt + "/s", kind: kindMerge, body: `{"metadata":{"labels":{"e":"f"}}}`},
		{name: "put without the status", by: byTenant, method: "PUT", path: claimsAt + "/s", body: body("IPClaim", "metadata: {name: s, resourceVersion: \"{rv:s}\"}, spec: {className: c}")},
		{name: "the masters write it", by: byMasters, method: "PATCH", path: claimsAt + "/s", kind: kindMerge, body: `{"status":{"phase":"Bound"}}`},

		{name: "a pool with a status", by: byTenant, method: "POST", path: poolsAt, body: body("IPPool", "metadata: {name: s}, spec: {cidr: 10.0.0.0/8}, status: {phase: Ready}")},
		{name: "a status of the pool", by: byController, method: "PATCH", path: itsPools + "/s/status", kind: kindMerge, body: inUse},
		{name: "a status of the pool by its tenant", by: byTenant, method: "PATCH", path: poolsAt + "/s", kind: kindMerge, body: `{"status":{"phase":"Pending"}}`},
		{name: "a pool in use", by: byTenant, method: "DELETE", path: poolsAt + "/s"},
		{name: "a pool in use, dry", by: byTenant, method: "DELETE", path: poolsAt + "/s" + dryRun},
		{name: "a pool in use joins a domain", by: byTenant, method: "PATCH", path: poolsAt + "/s", kind: kindMerge, body: `{"spec":{"addressDomain":"d"}}`},
		{name: "a pool in use for the masters", by: byMasters, method: "DELETE", path: poolsAt + "/s"},

		{name: "an allocation by the tenant", by: byTenant, method: "POST", path: records, body: record("r", "10.0.0.0/28", ""), differs: "the simulated kcp knows no roles: a policy refuses"},
		{name: "an allocation by the owner", by: byOwner, method: "POST", path: records, body: record("r", "10.0.0.0/28", ""), differs: "the simulated kcp knows no roles: a policy refuses"},
		{name: "an allocation by the controller", by: byController, method: "POST", path: itsRecords, body: record("r", "10.0.0.0/28", ", claimRef: {name: s, uid: \"{uid:s}\"}")},
		{name: "an allocation with a claim is not the tenant's to delete", by: byTenant, method: "DELETE", path: records + "/r"},
		{name: "another block", by: byController, method: "PATCH", path: itsRecords + "/r", kind: kindMerge, body: `{"status":{"allocatedCIDR":"10.0.0.16/28"}}`},
		{name: "the claim is removed", by: byController, method: "PATCH", path: itsRecords + "/r", kind: kindMerge, body: `{"spec":{"claimRef":null}}`},
		{name: "and comes back", by: byController, method: "PATCH", path: itsRecords + "/r", kind: kindMerge, body: `{"spec":{"claimRef":{"name":"s","uid":"u"}}}`},
		{name: "the tenant deletes it", by: byTenant, method: "DELETE", path: records + "/r"},
		{name: "a controller deletes by UID and version", by: byController, method: "DELETE", path: itsRecords + "/first", body: `{"preconditions":{"uid":"{uid:first}","resourceVersion":"1"}}`},
	}
}

// listings returns lists of one workspace, and of all workspaces.
func listings() []call {
	return []call{
		{name: "pools", by: byTenant, method: "GET", path: poolsAt},
		{name: "claims of all namespaces", by: byTenant, method: "GET", path: inTenant + theAPI + "/ipclaims"},
		{name: "claims of a namespace without any", by: byTenant, method: "GET", path: strings.Replace(claimsAt, "default", "going", 1)},
		{name: "pools by label", by: byTenant, method: "GET", path: poolsAt + "?labelSelector=tier%3Da"},
		{name: "pools by name", by: byTenant, method: "GET", path: poolsAt + "?fieldSelector=metadata.name%3Dpatched"},
		{name: "pools by another field", by: byTenant, method: "GET", path: poolsAt + "?fieldSelector=spec.cidr%3Dx"},
		{name: "pools by a selector that is none", by: byTenant, method: "GET", path: poolsAt + "?labelSelector=%3D%3D%3D"},
		{name: "a page", by: byTenant, method: "GET", path: poolsAt + "?limit=1"},
		{name: "the next page", by: byTenant, method: "GET", path: poolsAt + "?limit=1&continue={continue}"},
		{name: "a token that is none", by: byTenant, method: "GET", path: poolsAt + "?limit=1&continue=x"},
		{name: "all pools", by: byController, method: "GET", path: allPools},
		{name: "all claims", by: byController, method: "GET", path: allClaims},
		{name: "all claims in v1alpha1", by: byController, method: "GET", path: everywhere + theAPI + "/ipclaims"},
		{name: "all allocations", by: byController, method: "GET", path: allRecords},
		{name: "a page of all", by: byController, method: "GET", path: allPools + "?limit=1"},
		{name: "from the cache", by: byController, method: "GET", path: allPools + "?resourceVersion=0", settles: true},
		{name: "claims of a workspace, virtually", by: byController, method: "GET", path: virtually + theAPI + "/ipclaims"},
		{name: "a claim as it was", by: byController, method: "GET", path: past + "{rv:held}"},
		{name: "a claim as it was before its creation", by: byController, method: "GET", path: past + "{rv:c}"},
		{name: "a claim as it was after its deletion", by: byController, method: "GET", path: past + "{rv:patched}"},
		{name: "a claim as it will be", by: byController, method: "GET", path: past + "99999999"},
		{name: "a claim as it was at no revision", by: byController, method: "GET", path: past + "x"},
		{name: "what the export does not have", by: byController, method: "GET", path: everywhere + "/api/v1/secrets", differs: "the simulated kcp serves all kinds virtually"},
		{name: "another workspace, virtually", by: byController, method: "GET", path: "{vw}/clusters/nobodys000000000" + theAPI + "/ipclaims"},
		{name: "the platform, virtually", by: byController, method: "GET", path: "{vw}/clusters/{platform}" + theAPI + "/ippools"},
		{name: "platform's pools", by: byController, method: "GET", path: inPlatform + theAPI + "/ippools"},
		{name: "a class by the controller", by: byController, method: "GET", path: ownClasses + "/c"},
	}
}
