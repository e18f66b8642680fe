package fleet

import (
	"bytes"
	"encoding/json"
)

// These are the generated objects, as kcp shows the objects of a tenant who uses kubectl. Words with a dollar are
// replaced.

const claimJSON = `{"apiVersion":"ipam.miloapis.com/v1alpha1","kind":"IPClaim","metadata":{
"annotations":{"kcp.io/cluster":"$cluster"},
"creationTimestamp":"2026-01-02T03:04:05Z","generation":1,"managedFields":[
{"apiVersion":"ipam.miloapis.com/v1alpha1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{".":{},"f:className":{},"f:prefixLength":{}}},
"manager":"kubectl-create","operation":"Update","time":"2026-01-02T03:04:05Z"},
{"apiVersion":"ipam.miloapis.com/v1controller1","fieldsType":"FieldsV1","fieldsV1":{"f:status":{".":{},"f:address":{},"f:allocatedCIDR":{},
"f:boundAllocationRef":{".":{},"f:name":{}},"f:className":{},"f:conditions":{".":{},"k:{\"type\":\"Allocated\"}":{".":{},"f:lastTransitionTime":{},
"f:message":{},"f:observedGeneration":{},"f:reason":{},"f:status":{},"f:type":{}},"k:{\"type\":\"Ready\"}":{".":{},"f:lastTransitionTime":{},"f:message":{},
"f:observedGeneration":{},"f:reason":{},"f:status":{},"f:type":{}}},"f:ipFamily":{},"f:observedGeneration":{},"f:phase":{},"f:poolRef":{".":{},"f:name":{},
"f:projectRef":{".":{},"f:name":{}}}}},"manager":"ipam-controller","operation":"Update","subresource":"status","time":"2026-01-02T03:04:05Z"}],
"name":"$claim","namespace":"default","resourceVersion":"$rv","uid":"$uid"},
"spec":{"className":"shared","prefixLength":32},
"status":{"address":"$address","allocatedCIDR":"$address/32","boundAllocationRef":{"name":"$record"},"className":"shared","conditions":[
{"lastTransitionTime":"2026-01-02T03:04:05Z","message":"bound to $address/32","observedGeneration":1,"reason":"AllocationSucceeded","status":"True","type":"Allocated"},
{"lastTransitionTime":"2026-01-02T03:04:05Z","message":"bound to $address/32","observedGeneration":1,"reason":"AllocationSucceeded","status":"True","type":"Ready"}],
"ipFamily":"IPv4","observedGeneration":1,"phase":"Bound","poolRef":{"name":"shared","projectRef":{"name":"root:ipam"}}}}`

const recordJSON = `{"apiVersion":"ipam.miloapis.com/v1alpha1","kind":"IPAllocation","metadata":{"annotations":{"kcp.io/cluster":"$cluster"},
"creationTimestamp":"2026-01-02T03:04:05Z","generation":1,"managedFields":[
{"apiVersion":"ipam.miloapis.com/v1alpha1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{".":{},"f:claimRef":{".":{},"f:name":{},"f:uid":{}},"f:className":{},
"f:ipFamily":{},"f:poolRef":{".":{},"f:name":{},"f:projectRef":{".":{},"f:name":{}}},"f:reclaimPolicy":{}},"f:status":{".":{},"f:address":{},"f:allocatedCIDR":{},
"f:conditions":{".":{},"k:{\"type\":\"Allocated\"}":{".":{},"f:lastTransitionTime":{},"f:message":{},"f:observedGeneration":{},"f:reason":{},"f:status":{},"f:type":{}},
"k:{\"type\":\"Ready\"}":{".":{},"f:lastTransitionTime":{},"f:message":{},"f:observedGeneration":{},"f:reason":{},"f:status":{},"f:type":{}}},"f:phase":{}}},
"manager":"ipam-controller","operation":"Update","time":"2026-01-02T03:04:05Z"}],
"name":"$record","namespace":"default","resourceVersion":"$rv","uid":"$ruid"},
"spec":{"claimRef":{"name":"$claim","uid":"$uid"},"className":"shared","ipFamily":"IPv4","poolRef":{"name":"shared","projectRef":{"name":"root:ipam"}},"reclaimPolicy":"Delete"},
"status":{"address":"$address","allocatedCIDR":"$address/32","conditions":[
{"lastTransitionTime":"2026-01-02T03:04:05Z","message":"holds $address/32","observedGeneration":1,"reason":"AllocationSucceeded","status":"True","type":"Allocated"},
{"lastTransitionTime":"2026-01-02T03:04:05Z","message":"holds $address/32","observedGeneration":1,"reason":"AllocationSucceeded","status":"True","type":"Ready"}],
"phase":"Ready"}}`

const bindingJSON = `{"apiVersion":"apis.kcp.io/v1alpha2","kind":"APIBinding","metadata":{"annotations":{"kcp.io/cluster":"$cluster","kcp.io/path":"$path"},
"creationTimestamp":"2026-01-02T03:04:05Z","finalizers":["apis.kcp.io/apibinding-finalizer"],"generation":2,
"labels":{"internal.apis.kcp.io/export":"2oJcHpEtBDfXNaAUBS4v6FcNYv9wJFyjPbKGGB","claimed.internal.apis.kcp.io/mxkqO8PzFSvZcA":"b9D1tBTgx8aVjbLcvRyFBU"},
"managedFields":[{"apiVersion":"apis.kcp.io/v1alpha2","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:annotations":{".":{},"f:kcp.io/path":{}},
"f:finalizers":{".":{},"v:\"apis.kcp.io/apibinding-finalizer\"":{}}},"f:spec":{".":{},"f:permissionClaims":{},"f:reference":{".":{},"f:export":{".":{},"f:name":{},"f:path":{}}}}},
"manager":"kcp","operation":"Update","time":"2026-01-02T03:04:05Z"},
{"apiVersion":"apis.kcp.io/v1alpha1","fieldsType":"FieldsV1","fieldsV1":{"f:status":{".":{},"f:apiExportClusterName":{},"f:boundResources":{},"f:conditions":{},"f:phase":{}}},
"manager":"kcp","operation":"Update","subresource":"status","time":"2026-01-02T03:04:05Z"}],
"name":"ipam","resourceVersion":"$rv","uid":"$uid"},
"spec":{"reference":{"export":{"name":"ipam.miloapis.com","path":"root:ipam"}}},
"status":{"apiExportClusterName":"platform00000000","boundResources":[
{"group":"ipam.miloapis.com","resource":"ipclaims","schema":{"UID":"0b8a3a0e-6f0b-4d43-9d5a-1c0b8a3a0e6f","identityHash":"5e0e5f7d3a0c4b2f9f6e1d8c7b6a59483726150493827160","name":"v1-a.ipclaims.ipam.miloapis.com"},"storageVersions":["v1alpha1"]},
{"group":"ipam.miloapis.com","resource":"ippools","schema":{"UID":"1b8a3a0e-6f0b-4d43-9d5a-1c0b8a3a0e6f","identityHash":"5e0e5f7d3a0c4b2f9f6e1d8c7b6a59483726150493827160","name":"v1-a.ippools.ipam.miloapis.com"},"storageVersions":["v1alpha1"]},
{"group":"ipam.miloapis.com","resource":"ipallocations","schema":{"UID":"2b8a3a0e-6f0b-4d43-9d5a-1c0b8a3a0e6f","identityHash":"5e0e5f7d3a0c4b2f9f6e1d8c7b6a59483726150493827160","name":"v1-a.ipallocations.ipam.miloapis.com"},"storageVersions":["v1alpha1"]}],
"conditions":[{"lastTransitionTime":"2026-01-02T03:04:05Z","status":"True","type":"Ready"},
{"lastTransitionTime":"2026-01-02T03:04:05Z","status":"True","type":"APIExportValid"},
{"lastTransitionTime":"2026-01-02T03:04:05Z","status":"True","type":"BindingUpToDate"},
{"lastTransitionTime":"2026-01-02T03:04:05Z","status":"True","type":"InitialBindingCompleted"},
{"lastTransitionTime":"2026-01-02T03:04:05Z","status":"True","type":"PermissionClaimsApplied"},
{"lastTransitionTime":"2026-01-02T03:04:05Z","status":"True","type":"PermissionClaimsValid"}],"phase":"Bound"}}`

// compact removes the line breaks.
func compact(text string) string {
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(text)); err != nil {
		panic(err) // of a constant of this package
	}
	return b.String()
}
