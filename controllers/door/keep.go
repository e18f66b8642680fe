package door

import (
	"context"

	admissionv1 "k8s.io/api/admission/v1"
)

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
