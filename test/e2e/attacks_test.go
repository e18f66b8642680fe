package e2e

// creating returns the body of a claim with a forged status, and with these further fields in its metadata.
func creating(metadata string) string {
	return `{"apiVersion": "VERSION", "kind": "IPClaim", "metadata": {"name": "NAME"` + metadata + `}, "spec": SPEC, "status": FORGED}`
}

// managed returns a list of managed fields for creating.
func managed(entries string) string { return `, "managedFields": [` + entries + `]` }

// managedBy returns a forged entry of managed fields, of the manager x.
func managedBy(of, fields string) string {
	return `{"manager": "x", ` + of + `, "fieldsType": "FieldsV1", "fieldsV1": ` + fields + `}`
}

const (
	byUpdate = `"operation": "Update", "apiVersion": "VERSION"`
	byApply  = `"operation": "Apply", "apiVersion": "VERSION"`
	byStatus = `"operation": "Update", "subresource": "status", "apiVersion": "VERSION"`
	byNobody = `"operation": "Update", "apiVersion": "ipam.miloapis.com/v9"`
	inFuture = byUpdate + `, "time": "2040-01-01T00:00:00Z"`
	specOnly = `{"f:spec": {"f:poolRef": {}}}`
	applied  = "fieldManager=x&force=true"
	posing   = "fieldManager=ipam-controller&force=true"
	lenient  = "fieldValidation=Ignore"
)

// attacksOnCreate are attempts to create claims that have a status.
var attacksOnCreate = []attack{
	{name: "a status", body: creating("")},
	{name: "in YAML", kind: asYAML, body: creating("")},
	{name: "of a generated name", body: `{"apiVersion": "VERSION", "kind": "IPClaim", "metadata": {"generateName": "NAME-"}, "spec": SPEC, "status": FORGED}`},
	{name: "no managed fields", body: creating(managed(""))},
	{name: "null for managed fields", body: creating(`, "managedFields": null`)},
	{name: "managed fields reset", body: creating(managed("{}"))},
	{name: "managed fields of nothing", body: creating(managed(managedBy(byUpdate, "{}")))},
	{name: "managed fields of another", body: creating(managed(managedBy(byApply, specOnly)))},
	{name: "managed fields of the sender", query: "fieldManager=x", body: creating(managed(managedBy(inFuture, specOnly)))},
	{name: "managed fields of a subresource", body: creating(managed(managedBy(byStatus, `{"f:status": {"f:phase": {}}}`)))},
	{name: "managed fields of an unknown version", body: creating(managed(managedBy(byNobody, specOnly)))},
	{name: "managed fields that are broken", body: creating(managed(managedBy(byUpdate, `{"k:{": 1, "v:": [], "f:status": "x"}`)))},
	{name: "managed fields twice", query: lenient, body: creating(managed(managedBy(byUpdate, specOnly)) + managed("{}"))},
	{name: "a status twice", query: lenient, body: `{"status": {}, ` + creating("")[1:]},
	{name: "a status twice, the empty one last", query: lenient,
		body: `{"apiVersion": "VERSION", "kind": "IPClaim", "metadata": {"name": "NAME"}, "status": FORGED, "spec": SPEC, "status": {}}`},
	{name: "a condition twice", query: lenient,
		body: `{"apiVersion": "VERSION", "kind": "IPClaim", "metadata": {"name": "NAME"}, "spec": SPEC,
			"status": {"className": "forged", "conditions": [CONDITION, CONDITION]}}`},
	{name: "an unknown field beside", query: lenient, body: `{"bogus": 1, ` + creating("")[1:]},
	{name: "the controller's field manager", query: "fieldManager=ipam-controller", body: creating("")},
	{name: "a field manager like a field", query: "fieldManager=f:status", body: creating("")},
	{name: "a field manager of a space", query: "fieldManager= ", body: creating("")},
	{name: "a rehearsal", query: "dryRun=All", body: creating("")},
	{name: "apply", verb: "PATCH", at: "/NAME", kind: asApply, query: applied, body: creating("")},
	{name: "apply as the controller", verb: "PATCH", at: "/NAME", kind: asApply, query: posing, body: creating("")},
	{name: "apply with managed fields", verb: "PATCH", at: "/NAME", kind: asApply, query: applied, body: creating(managed("{}"))},
	{name: "update of what is not there", verb: "PUT", at: "/NAME", body: creating("")},
	{name: "create the status alone", at: "/NAME/status", body: creating("")},
	{name: "apply to the status", verb: "PATCH", at: "/NAME/status", kind: asApply, query: applied, body: creating("")},
	{name: "in the second version, without a status", version: second, body: `{"apiVersion": "VERSION", "kind": "IPClaim", "metadata": {"name": "NAME"}, "spec": SPEC}`},
	{name: "in the second version", version: second, body: creating("")},
	{name: "in the second version, managed fields reset", version: second, body: creating(managed("{}"))},
	{name: "apply in the second version", version: second, verb: "PATCH", at: "/NAME", kind: asApply, query: applied, body: creating("")},
	{name: "create the status alone in the second version", version: second, at: "/NAME/status", body: creating("")},
	{name: "apply to the status in the second version", version: second, verb: "PATCH", at: "/NAME/status", kind: asApply, query: applied, body: creating("")},
	{name: "the second version at the path of the first",
		body: `{"apiVersion": "ipam.miloapis.com/v1controller1", "kind": "IPClaim", "metadata": {"name": "NAME"}, "spec": SPEC, "status": FORGED}`},
}

// updating returns the body of a bound claim as it was read, without its status.
func updating(rest string) string {
	return `{"apiVersion": "VERSION", "kind": "IPClaim",
		"metadata": {"name": "NAME", "resourceVersion": "REVISION"` + rest + `}`
}

// applying returns the body of an apply that changes nothing in the spec.
func applying(rest string) string {
	return `{"apiVersion": "VERSION", "kind": "IPClaim", "metadata": {"name": "NAME"}, "spec": SPEC` + rest + `}`
}

// attacksOnChange are attempts to change or remove the status of a bound claim.
var attacksOnChange = []attack{
	{name: "merge", verb: "PATCH", at: "/NAME", kind: asMerge, body: `{"status": FORGED}`},
	{name: "merge one field", verb: "PATCH", at: "/NAME", kind: asMerge, body: `{"status": {"allocatedCIDR": "203.0.113.0/28"}}`},
	{name: "merge, managed fields reset", verb: "PATCH", at: "/NAME", kind: asMerge, body: `{"metadata": {"managedFields": [{}]}, "status": FORGED}`},
	{name: "merge nothing", verb: "PATCH", at: "/NAME", kind: asMerge, body: `{"status": null}`},
	{name: "merge less", verb: "PATCH", at: "/NAME", kind: asMerge, body: `{"status": {"conditions": [], "allocatedCIDR": null}}`},
	{name: "merge as the controller", verb: "PATCH", at: "/NAME", kind: asMerge, query: "fieldManager=ipam-controller", body: `{"status": FORGED}`},
	{name: "replace", verb: "PATCH", at: "/NAME", kind: asJSON, body: `[{"op": "replace", "path": "/status/allocatedCIDR", "value": "203.0.113.0/28"}]`},
	{name: "add", verb: "PATCH", at: "/NAME", kind: asJSON, body: `[{"op": "add", "path": "/status", "value": FORGED}]`},
	{name: "remove", verb: "PATCH", at: "/NAME", kind: asJSON, body: `[{"op": "remove", "path": "/status"}]`},
	{name: "copy", verb: "PATCH", at: "/NAME", kind: asJSON, body: `[{"op": "copy", "from": "/metadata/name", "path": "/status/className"}]`},
	{name: "apply", verb: "PATCH", at: "/NAME", kind: asApply, query: applied, body: applying(`, "status": FORGED`)},
	{name: "apply as the controller", verb: "PATCH", at: "/NAME", kind: asApply, query: posing, body: applying(`, "status": FORGED`)},
	{name: "update", verb: "PUT", at: "/NAME", body: updating(`}, "spec": SPEC, "status": FORGED`)},
	{name: "update, managed fields reset", verb: "PUT", at: "/NAME", body: updating(managed("{}") + `}, "spec": SPEC, "status": FORGED`)},
	{name: "update without a status", verb: "PUT", at: "/NAME", body: updating(`}, "spec": SPEC`)},
	{name: "update with an empty status", verb: "PUT", at: "/NAME", body: updating(`}, "spec": SPEC, "status": {}`)},
	{name: "update with null for a status", verb: "PUT", at: "/NAME", body: updating(`}, "spec": SPEC, "status": null`)},
	{name: "update in the second version", version: second, verb: "PUT", at: "/NAME", body: updating(`}, "spec": SPEC, "status": FORGED`)},
	{name: "merge in the second version", version: second, verb: "PATCH", at: "/NAME", kind: asMerge, body: `{"status": FORGED}`},
	{name: "apply in the second version", version: second, verb: "PATCH", at: "/NAME", kind: asApply, query: applied, body: applying(`, "status": FORGED`)},
	{name: "update the status", verb: "PUT", at: "/NAME/status", body: updating(`}, "spec": SPEC, "status": FORGED`)},
	{name: "merge into the status", verb: "PATCH", at: "/NAME/status", kind: asMerge, body: `{"status": FORGED}`},
	{name: "update the status in the second version", version: second, verb: "PUT", at: "/NAME/status", body: updating(`}, "spec": SPEC, "status": FORGED`)},
	{name: "merge into the status in the second version", version: second, verb: "PATCH", at: "/NAME/status", kind: asMerge, body: `{"status": FORGED}`},
	{name: "remove the status in the second version", version: second, verb: "PATCH", at: "/NAME/status", kind: asJSON, body: `[{"op": "remove", "path": "/status"}]`},
	{name: "apply to the status in the second version", version: second, verb: "PATCH", at: "/NAME/status", kind: asApply, query: applied, body: applying(`, "status": FORGED`)},
	// An applier that owns a field removes it by an apply without it.
	{name: "own the status as it is", verb: "PATCH", at: "/NAME", kind: asApply, query: applied, body: applying(`, "status": STATUS`)},
	{name: "give up the status that was owned", verb: "PATCH", at: "/NAME", kind: asApply, query: applied, body: applying("")},
	{name: "give it up in the second version", version: second, verb: "PATCH", at: "/NAME", kind: asApply, query: applied, body: applying("")},
}
