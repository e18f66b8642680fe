package e2e

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// door answers the webhooks of one side, and keeps the reviews.
type door struct {
	mu    sync.Mutex
	asked []answer
}

// ServeHTTP answers by the label "door" of the object: deny, deny-late, silent, mend, fail. It allows anything else.
func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	review := &admissionv1.AdmissionReview{}
	if err := json.NewDecoder(r.Body).Decode(review); err != nil || review.Request == nil {
		http.Error(w, "no review", http.StatusBadRequest)
		return
	}
	d.keep(r.URL.Path, review.Request)
	object := &metav1.PartialObjectMetadata{}
	about := review.Request.Object.Raw
	if about == nil {
		about = review.Request.OldObject.Raw
	}
	if err := json.Unmarshal(about, object); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	switch object.Labels["door"] {
	case "fail":
		http.Error(w, "it fails", http.StatusInternalServerError)
		return
	case "deny", "deny-late":
		if object.Labels["door"] == "deny-late" && !strings.HasSuffix(r.URL.Path, "refuse") {
			break
		}
		review.Response.Allowed = false
		review.Response.Result = &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusConflict, Reason: metav1.StatusReasonConflict, Message: "not now"}
	case "silent":
		review.Response.Allowed = false
	case "mend":
		if strings.HasSuffix(r.URL.Path, "answer") {
			patch := admissionv1.PatchTypeJSONPatch
			review.Response.PatchType = &patch
			review.Response.Patch = []byte(`[{"op":"add","path":"/status","value":{"phase":"Bound","allocatedCIDR":"10.0.0.0/28","pruned":1,
				"conditions":[{"type":"Allocated","status":"True","reason":"AllocationSucceeded","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}]`)
		}
	}
	review.Request = nil
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review)
}

// keep stores the parts of a webhook request that have to be the same from kcp and from simkcp.
func (d *door) keep(path string, asked *admissionv1.AdmissionRequest) {
	d.mu.Lock()
	defer d.mu.Unlock()
	read := func(raw []byte) (object any) {
		if raw != nil {
			_ = json.Unmarshal(raw, &object)
		}
		return object
	}
	kept := map[string]any{
		"at": path[strings.LastIndex(path, "/")+1:], "operation": string(asked.Operation), "namespace": asked.Namespace, "name": asked.Name,
		"kind": asked.Kind.String(), "resource": asked.Resource.String(), "subresource": asked.SubResource,
		"object": read(asked.Object.Raw), "old": read(asked.OldObject.Raw), "dry": asked.DryRun != nil && *asked.DryRun,
	}
	d.asked = append(d.asked, answer{body: kept})
}

// Do implements [simkcp.Door].
func (d *door) Do(r *http.Request) (*http.Response, error) {
	recorder := httptest.NewRecorder()
	d.ServeHTTP(recorder, r)
	return recorder.Result(), nil
}

// hook registers webhooks like those of the controller, and waits until kcp asks them.
func (d *duel) hook(t *testing.T) {
	t.Helper()
	truth, simulated := &door{}, &door{}
	server := httptest.NewTLSServer(truth)
	t.Cleanup(server.Close)
	d.doors = map[*side]*door{d.real: truth, d.simulated: simulated}
	d.world.Door = simulated
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	for s, at := range map[*side]string{d.real: server.URL, d.simulated: "https://door"} {
		s.words["door"], s.words["ca"] = at, base64.StdEncoding.EncodeToString(ca)
	}
	const more = "a server gives webhooks more fields"
	registrations := "/clusters/{platformPath}/apis/admissionregistration.k8s.io/v1/"
	d.run(t, []call{
		{name: "webhooks that mutate", by: byAdmin, method: "POST", path: registrations + "mutatingwebhookconfigurations", body: registration("MutatingWebhookConfiguration",
			webhook("answer", "CREATE", "ipclaims", "Ignore"), webhook("release", "DELETE", "ipallocations", "Ignore", "has(oldObject.spec.claimRef)"),
			webhook("keep", "UPDATE", "ipclaims", "Ignore", "object.?status.orValue({}) != oldObject.?status.orValue({})",
				"!('system:masters' in request.userInfo.?groups.orValue([]))")), differs: more},
		{name: "webhooks that validate", by: byAdmin, method: "POST", path: registrations + "validatingwebhookconfigurations", body: registration("ValidatingWebhookConfiguration",
			webhook("refuse", "CREATE", "ipclaims", "Fail", "object.?spec.?unmetPolicy.orValue('') == 'Refuse'", "object.?status.?conditions.orValue([]).size() == 0")), differs: more},
		{name: "kcp knows the first", by: byTenant, method: "POST", path: claimsAt + dryRun, body: hookedClaim("early", "deny", ""), settles: true},
		{name: "kcp knows the second", by: byTenant, method: "POST", path: claimsAt + dryRun, body: hookedClaim("early", "deny-late", "unmetPolicy: Refuse"), settles: true},
	})
	for _, one := range d.doors {
		one.mu.Lock()
		one.asked = nil
		one.mu.Unlock()
	}
}

// registration returns webhooks as the controller registers them.
func registration(kind string, webhooks ...string) string {
	return fmt.Sprintf(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":%q,"metadata":{"name":"ipam.miloapis.com"},"webhooks":[%s]}`, kind, strings.Join(webhooks, ","))
}

func webhook(at, operation, plural, failure string, conditions ...string) string {
	matches := make([]any, len(conditions))
	for i, expression := range conditions {
		matches[i] = map[string]any{"name": fmt.Sprintf("c%d", i), "expression": expression}
	}
	text, err := json.Marshal(map[string]any{
		"name": at + ".ipam.miloapis.com", "clientConfig": map[string]any{"url": "{door}/token/" + at, "caBundle": "{ca}"},
		"rules":         []any{map[string]any{"operations": []string{operation}, "apiGroups": []string{"ipam.miloapis.com"}, "apiVersions": []string{"v1alpha1"}, "resources": []string{plural}}},
		"failurePolicy": failure, "matchPolicy": "Exact", "sideEffects": "NoneOnDryRun", "timeoutSeconds": 5, "admissionReviewVersions": []string{"v1"}, "matchConditions": matches,
	})
	if err != nil {
		panic(err)
	}
	return string(text)
}

// hookedClaim returns a claim with the label by which a door answers.
func hookedClaim(name, door, spec string) string {
	return body("IPClaim", "metadata: {name: "+name+", labels: {door: "+door+"}}, spec: {"+spec+"}")
}

// hooked returns calls that show which webhooks are asked.
func hooked() []call {
	return []call{
		{name: "allowed", by: byTenant, method: "POST", path: claimsAt, body: hookedClaim("h1", "allow", "className: c")},
		{name: "answered", by: byTenant, method: "POST", path: claimsAt, body: hookedClaim("h2", "mend", "className: c")},
		{name: "answered dry", by: byTenant, method: "POST", path: claimsAt + dryRun, body: hookedClaim("h3", "mend", "className: c")},
		{name: "answered, and there is one", by: byTenant, method: "POST", path: claimsAt, body: hookedClaim("h2", "mend", "className: c")},
		{name: "answered, with a generated name", by: byTenant, method: "POST", path: claimsAt, body: body("IPClaim", "metadata: {generateName: h-, labels: {door: mend}}, spec: {}")},
		{name: "the generated one goes", by: byTenant, method: "DELETE", path: claimsAt + "/{generated}"},
		{name: "answered, and invalid", by: byTenant, method: "POST", path: claimsAt, body: hookedClaim("h4", "mend", "prefixLength: 129")},
		{name: "answered, with a forged status", by: byTenant, method: "POST", path: claimsAt, body: body("IPClaim", "metadata: {name: h5, labels: {door: mend}}, spec: {}, status: {phase: Pending}")},
		{name: "answered, in the version of the controller", by: byController, method: "POST", path: itsClaims, body: inController(hookedClaim("h6", "mend", ""))},
		{name: "denied", by: byTenant, method: "POST", path: claimsAt, body: hookedClaim("h7", "deny", "")},
		{name: "denied without a word", by: byTenant, method: "POST", path: claimsAt, body: hookedClaim("h7", "silent", "")},
		{name: "it fails, and is ignored", by: byTenant, method: "POST", path: claimsAt, body: hookedClaim("h8", "fail", "")},
		{name: "it fails, and that is not ignored", by: byTenant, method: "POST", path: claimsAt, body: hookedClaim("h9", "fail", "unmetPolicy: Refuse")},
		{name: "refuse, and answered", by: byTenant, method: "POST", path: claimsAt, body: hookedClaim("h10", "mend", "unmetPolicy: Refuse")},
		{name: "refuse, and denied", by: byTenant, method: "POST", path: claimsAt, body: hookedClaim("h12", "deny-late", "unmetPolicy: Refuse")},
		{name: "refuse, and not answered", by: byTenant, method: "POST", path: claimsAt, body: hookedClaim("h11", "allow", "unmetPolicy: Refuse")},
		{name: "labels change", by: byTenant, method: "PATCH", path: claimsAt + "/h2", kind: kindMerge, body: `{"metadata":{"labels":{"a":"b"}}}`},
		{name: "the status changes", by: byTenant, method: "PATCH", path: claimsAt + "/h2", kind: kindMerge, body: `{"status":{"phase":"Pending"}}`},
		{name: "the status changes by the masters", by: byMasters, method: "PATCH", path: claimsAt + "/h2", kind: kindMerge, body: `{"status":{"phase":"Pending"}}`},
		{name: "the status changes by the controller", by: byController, method: "PATCH", path: itsClaims + "/h2/status", kind: kindMerge, body: `{"status":{"phase":"Bound"}}`},
		{name: "a record with a claim", by: byController, method: "POST", path: itsRecords, body: record("h2", "10.0.0.0/28", ", claimRef: {name: h2, uid: \"{uid:h2}\"}")},
		{name: "its DELETE is asked about", by: byTenant, method: "DELETE", path: records + "/h2"},
		{name: "its DELETE is asked about dry", by: byTenant, method: "DELETE", path: records + "/h2" + dryRun},
		{name: "a DELETE of a claim is not", by: byTenant, method: "DELETE", path: claimsAt + "/h1"},
	}
}

// compareReviews compares the requests to the webhooks of both sides.
func (d *duel) compareReviews(t *testing.T) {
	t.Helper()
	all := map[*side][]any{}
	for s, one := range d.doors {
		one.mu.Lock()
		all[s] = s.all(one.asked)
		one.mu.Unlock()
	}
	if len(all[d.real]) == 0 {
		t.Error("kcp has asked no webhook")
	}
	if diff := cmp.Diff(all[d.real], all[d.simulated]); diff != "" {
		t.Errorf("what webhooks were asked: -kcp +simulated:\n%s", diff)
	}
}
