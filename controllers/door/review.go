package door

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

const (
	// maxReview bounds the body of a request with the token, in bytes. A claim is a few KiB, and 256 KiB more with all the
	// annotations that it may have; a review of an UPDATE has two claims. The API server lets in objects of 3 MiB. If a
	// review is larger than maxReview, the API server does without the door.
	maxReview = 2 << 20
	// maxRefused bounds the body of a request without the token. If a body is larger, the API server gets no answer, and
	// refuses the claim itself.
	maxRefused = 512 << 10
)

// review has the fields of an AdmissionReview that are used. The decoder skips the others, such as
// userInfo, which would take many times their size in memory.
type review struct {
	APIVersion string   `json:"apiVersion"`
	Request    *request `json:"request"`
}

// request is what is read of an AdmissionRequest.
type request struct {
	UID         types.UID                   `json:"uid"`
	Resource    metav1.GroupVersionResource `json:"resource"`
	SubResource string                      `json:"subResource"`
	Name        string                      `json:"name"`
	Namespace   string                      `json:"namespace"`
	Object      runtime.RawExtension        `json:"object"`
	OldObject   runtime.RawExtension        `json:"oldObject"`
	DryRun      *bool                       `json:"dryRun"`
}

// reviewer decides one admission request. An error means that it cannot: the API server then
// goes by the failure policy of the webhook.
type reviewer func(ctx context.Context, req *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error)

// httpError is an error with its HTTP status. The API server is shown its text.
type httpError struct {
	error
	code int
}

func (e *httpError) Unwrap() error { return e.error }

func tooLarge(most int64) error {
	return &httpError{fmt.Errorf("a review has at most %d bytes", most), http.StatusRequestEntityTooLarge}
}

// readReview reads an admission request for a resource. The request may have as many bytes as most says.
func readReview(
	w http.ResponseWriter, r *http.Request, most int64, resource string,
) (*admissionv1.AdmissionRequest, error) {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != "application/json" {
		return nil, &httpError{errors.New("the content type must be application/json"), http.StatusUnsupportedMediaType}
	}
	if r.ContentLength > most {
		return nil, tooLarge(most)
	}
	review := &review{}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, most)).Decode(review); err != nil {
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			return nil, tooLarge(most)
		}
		return nil, &httpError{errors.New("the body is no AdmissionReview, or was cut off"), http.StatusBadRequest}
	}
	req := review.Request
	if review.APIVersion != admissionv1.SchemeGroupVersion.String() || req == nil || !req.of(resource) {
		return nil, &httpError{
			errors.New("this is not an AdmissionReview of admission.k8s.io/v1 for " + resource), http.StatusBadRequest,
		}
	}
	return &admissionv1.AdmissionRequest{
		UID: req.UID, Resource: req.Resource, Name: req.Name, Namespace: req.Namespace,
		Object: req.Object, OldObject: req.OldObject, DryRun: req.DryRun,
	}, nil
}

// of reports whether a request is about this resource of v1alpha1, and not about a subresource.
func (r *request) of(resource string) bool {
	return r.Resource == metav1.GroupVersionResource(ipamv1alpha1.GroupVersion.WithResource(resource)) &&
		r.SubResource == ""
}

// writeReview answers an admission request.
func writeReview(w http.ResponseWriter, req *admissionv1.AdmissionRequest, resp *admissionv1.AdmissionResponse) {
	resp.UID = req.UID
	w.Header().Set("Content-Type", "application/json")
	// A caller that has gone is the only cause of an error here.
	_ = json.NewEncoder(w).Encode(&admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"},
		Response: resp,
	})
}

// writeError answers a request that cannot be decided. The API server may show its response to the user. So the text of
// any error except an httpError goes to the log alone.
func writeError(ctx context.Context, w http.ResponseWriter, err error) {
	coded, ok := errors.AsType[*httpError](err)
	if !ok {
		log.FromContext(ctx).Error(err, "a review cannot be decided")
		coded = &httpError{errors.New("the review cannot be decided"), http.StatusInternalServerError}
	}
	http.Error(w, coded.Error(), coded.code)
}
