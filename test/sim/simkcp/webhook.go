package simkcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	webhookerrors "k8s.io/apiserver/pkg/admission/plugin/webhook/errors"
)

// Door reaches the webhooks at a URL.
type Door interface {
	Do(*http.Request) (*http.Response, error)
}

// decode converts parsed JSON to a type.
func decode(from map[string]any, to any) error {
	return runtime.DefaultUnstructuredConverter.FromUnstructured(from, to)
}

// admits reports whether the platform's admission is asked. kcp looks at the bindings that exist now, not at the
// binding that routed the request: if none is left, it asks nobody.
func (w *World) admits(q request) bool {
	if q.group != ipamGroup || q.cluster == Platform {
		return q.group == ipamGroup
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.serving(q.cluster) != nil
}

// registered returns the webhooks of a resource, mutating or validating. As far as a world reads them, both have the
// same fields.
func (w *World) registered(plural string) []hook {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.tables[webhookGroup+"/"+plural].objects[place{Platform, "", ipamGroup}]
	if known := w.hooks[plural]; bytes.Equal(known.from, b) {
		return known.hooks
	}
	read := &admissionregistrationv1.MutatingWebhookConfiguration{}
	if b != nil {
		if err := json.Unmarshal(b, read); err != nil {
			panic(err)
		}
	}
	var hooks []hook
	for _, m := range read.Webhooks {
		conditions, err := json.Marshal(m.MatchConditions)
		if err != nil {
			panic(err)
		}
		hooks = append(hooks, hook{
			name: m.Name, url: *m.ClientConfig.URL, timeout: time.Duration(*m.TimeoutSeconds) * time.Second, rules: m.Rules,
			matcher: compiled.matcher(string(conditions), m.MatchConditions), fails: *m.FailurePolicy == admissionregistrationv1.Fail,
		})
	}
	w.hooks[plural] = registration{from: b, hooks: hooks}
	return hooks
}

// registration has the webhooks of a stored configuration.
type registration struct {
	from  []byte
	hooks []hook
}

// hook is a webhook that mutates or validates.
type hook struct {
	name    string
	url     string
	timeout time.Duration
	rules   []admissionregistrationv1.RuleWithOperations
	matcher *matching
	fails   bool // if it gives no answer, the request is refused
}

// unanswered returns the refusal of a request to which a webhook gives no answer; nil: the webhook is ignored.
func (h hook) unanswered(err error) *apierrors.StatusError {
	if !h.fails {
		return nil
	}
	return apierrors.NewInternalError(fmt.Errorf("failed calling webhook %q: %w", h.name, err))
}

// asked reports whether a webhook is called for a request.
func (w *World) asked(ctx context.Context, h hook, q request, a *admission.VersionedAttributes) (bool, *apierrors.StatusError) {
	about := false
	for _, rule := range h.rules {
		about = about || matches(rule, q, a.GetOperation())
	}
	if !about || w.Door == nil {
		return false, nil
	}
	matched, err := h.matcher.match(ctx, q.user, a)
	if err != nil {
		return false, h.unanswered(err)
	}
	return matched, nil
}

// mutate calls the mutating webhooks, and returns the object as they have changed it.
func (w *World) mutate(ctx context.Context, q request, op admission.Operation, o, old *unstructured.Unstructured) (*unstructured.Unstructured, *apierrors.StatusError) {
	for _, h := range w.registered("mutatingwebhookconfigurations") {
		response, refusal := w.call(ctx, h, q, q.attributes(op, o, old))
		if refusal != nil {
			return nil, refusal
		}
		if response == nil || len(response.Patch) == 0 || o == nil {
			continue
		}
		patch, err := jsonpatch.DecodePatch(response.Patch)
		if err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		b, err := patch.Apply(text(o))
		if err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		o = parse(b)
		formOf(q).admit(o.Object)
	}
	return o, nil
}

// validate evaluates the policies, and calls the validating webhooks.
func (w *World) validate(ctx context.Context, q request, op admission.Operation, o, old *unstructured.Unstructured) *apierrors.StatusError {
	a := q.attributes(op, o, old)
	if refusal := judge(ctx, q, a); refusal != nil {
		return refusal
	}
	for _, h := range w.registered("validatingwebhookconfigurations") {
		if _, refusal := w.call(ctx, h, q, a); refusal != nil {
			return refusal
		}
	}
	return nil
}

// call calls a webhook if it is to be asked, and returns its answer, or a refusal. Both are nil if there is no
// answer.
func (w *World) call(ctx context.Context, h hook, q request, a *admission.VersionedAttributes) (*admissionv1.AdmissionResponse, *apierrors.StatusError) {
	called, refusal := w.asked(ctx, h, q, a)
	if !called || refusal != nil {
		return nil, refusal
	}
	response, err := w.send(ctx, h, q.review(a))
	if err != nil {
		return nil, h.unanswered(err)
	}
	if !response.Allowed {
		return nil, webhookerrors.ToStatusErr(h.name, response.Result)
	}
	return response, nil
}

// review returns a request in the form in which a webhook gets it.
func (q request) review(a *admission.VersionedAttributes) *admissionv1.AdmissionRequest {
	by := info(q.user)
	extra := map[string]authenticationv1.ExtraValue{}
	for key, values := range by.GetExtra() {
		extra[key] = values
	}
	r := &admissionv1.AdmissionRequest{
		UID:      "r",
		Kind:     metav1.GroupVersionKind{Group: q.group, Version: q.version, Kind: q.kind.name},
		Resource: metav1.GroupVersionResource{Group: q.group, Version: q.version, Resource: q.plural}, SubResource: q.subresource,
		Operation: admissionv1.Operation(a.GetOperation()), Namespace: q.namespace, Name: q.name, DryRun: new(q.dry),
	}
	r.UserInfo.Username, r.UserInfo.Groups, r.UserInfo.Extra = by.GetName(), by.GetGroups(), extra
	if o, ok := a.VersionedObject.(*unstructured.Unstructured); ok {
		r.Object = runtime.RawExtension{Raw: text(o)}
	}
	if o, ok := a.VersionedOldObject.(*unstructured.Unstructured); ok {
		r.OldObject = runtime.RawExtension{Raw: text(o)}
	}
	return r
}

// send sends a review to a webhook.
func (w *World) send(ctx context.Context, h hook, asked *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
	body, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: asked,
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, h.timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	answered, err := w.Door.Do(r)
	if err != nil {
		return nil, fmt.Errorf("failed to call webhook: %w", err)
	}
	defer func() { _ = answered.Body.Close() }()
	if answered.StatusCode != http.StatusOK {
		says, _ := io.ReadAll(answered.Body)
		return nil, fmt.Errorf("failed to call webhook: an error on the server (%q) has prevented the request from succeeding", bytes.TrimSpace(says))
	}
	review := &admissionv1.AdmissionReview{}
	if err := json.NewDecoder(answered.Body).Decode(review); err != nil {
		return nil, fmt.Errorf("failed to call webhook: %w", err)
	}
	if review.Response == nil {
		return nil, errors.New("expected response to have a body")
	}
	return review.Response, nil
}
