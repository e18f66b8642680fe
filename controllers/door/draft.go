package door

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// ownedStatus is the key by which managedFields say that a manager owns fields of the status.
const ownedStatus = "f:status"

// operation is one operation of a JSON patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// draft is a claim under review, and the patch that is to be made to it. The claim is as a
// user sent it: its status may be of any type.
type draft struct {
	unstructured.Unstructured
	patch []operation
}

func readDraft(raw []byte) (*draft, error) {
	d := &draft{}
	// Keys are compared exactly, as the API server does.
	if err := utiljson.Unmarshal(raw, &d.Object); err != nil {
		return nil, fmt.Errorf("read the claim: %w", err)
	}
	return d, nil
}

// claim returns the claim without its status.
func (d *draft) claim() (*ipamv1alpha1.IPClaim, error) {
	without := make(map[string]any, len(d.Object))
	for key, value := range d.Object {
		if key != "status" {
			without[key] = value
		}
	}
	claim := &ipamv1alpha1.IPClaim{}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(without, claim)
	return claim, err
}

// rename gives the claim a name.
func (d *draft) rename(name string) {
	d.SetName(name)
	d.patch = append(d.patch, operation{"add", "/metadata/name", name})
}

// setStatus sets the status, or removes it if the value is nil.
func (d *draft) setStatus(value any) {
	if value != nil {
		d.patch = append(d.patch, operation{"add", "/status", value}) // replaces a status that is there
		return
	}
	if _, there := d.Object["status"]; there {
		d.patch = append(d.patch, operation{Op: "remove", Path: "/status"})
	}
}

// disownStatus removes the status from all entries of the managed fields, because only the system writes the status.
func (d *draft) disownStatus() {
	entries, _, _ := unstructured.NestedFieldNoCopy(d.Object, "metadata", "managedFields")
	list, _ := entries.([]any)
	for i, entry := range list {
		entry, _ := entry.(map[string]any)
		if _, owned, _ := unstructured.NestedFieldNoCopy(entry, "fieldsV1", ownedStatus); owned {
			path := fmt.Sprintf("/metadata/managedFields/%d/fieldsV1/%s", i, ownedStatus)
			d.patch = append(d.patch, operation{Op: "remove", Path: path})
		}
	}
}

// allowed returns the response that lets the request pass, with the patch.
func (d *draft) allowed() (*admissionv1.AdmissionResponse, error) {
	resp := &admissionv1.AdmissionResponse{Allowed: true}
	if len(d.patch) == 0 {
		return resp, nil
	}
	patch, err := json.Marshal(d.patch)
	if err != nil {
		return nil, fmt.Errorf("write the patch: %w", err)
	}
	resp.Patch, resp.PatchType = patch, new(admissionv1.PatchTypeJSONPatch)
	return resp, nil
}

// sameStatus reports whether two claims have the same status. An empty status is the same as none, because typed
// clients send an empty one.
func sameStatus(a, b *draft) bool {
	return reflect.DeepEqual(a.statusOrEmpty(), b.statusOrEmpty())
}

func (d *draft) statusOrEmpty() any {
	if status, there := d.Object["status"]; there {
		return status
	}
	return map[string]any{}
}

// keep restores the status of a claim that an UPDATE has changed. The API server asks only when
// the status differs, and not when the system writes.
func keep(_ context.Context, req *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
	updated, err := readDraft(req.Object.Raw)
	if err != nil {
		return nil, err
	}
	stored, err := readDraft(req.OldObject.Raw)
	if err != nil {
		return nil, err
	}
	if !sameStatus(updated, stored) {
		updated.setStatus(stored.Object["status"])
		updated.disownStatus()
	}
	return updated.allowed()
}
