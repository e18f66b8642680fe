package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// Ask asks the webhook that the controller has registered what the CREATE of a claim in a workspace
// would be answered with, as kcp asks it, and returns the claim with that answer. It does not store the
// claim, whose reservation the controller frees in time.
func (s *Server) Ask(ctx context.Context, workspace int, claim *ipamv1alpha1.IPClaim) (*ipamv1alpha1.IPClaim, error) {
	webhook, err := s.registered()
	if err != nil {
		return nil, err
	}
	asked := claim.DeepCopy()
	asked.Annotations = map[string]string{"kcp.io/cluster": s.crowd.Cluster(workspace)}
	asked.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "fleet", Operation: metav1.ManagedFieldsOperationUpdate}} // as the server records
	object, err := json.Marshal(asked)
	if err != nil {
		return nil, err
	}
	review := admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: uuid.NewUUID(), Resource: metav1.GroupVersionResource(ipamv1alpha1.GroupVersion.WithResource("ipclaims")),
			Operation: admissionv1.Create, Name: claim.Name, Namespace: claim.Namespace, Object: runtime.RawExtension{Raw: object},
		},
	}
	if err := call(ctx, webhook, &review); err != nil {
		return nil, err
	}
	if review.Response == nil || !review.Response.Allowed {
		return nil, fmt.Errorf("the webhook answers %+v", review.Response)
	}
	patch, err := jsonpatch.DecodePatch(review.Response.Patch)
	if err != nil {
		return nil, err
	}
	if object, err = patch.Apply(object); err != nil {
		return nil, err
	}
	answered := &ipamv1alpha1.IPClaim{}
	return answered, json.Unmarshal(object, answered)
}

// registered returns the way to the webhook that answers CREATE.
func (s *Server) registered() (*admissionregistrationv1.WebhookClientConfig, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	text, ok := s.tables[webhookGroup+"/mutatingwebhookconfigurations"].get(place{cluster: s.platform.cluster, name: ipamGroup})
	if !ok {
		return nil, errors.New("no webhook is registered")
	}
	configuration := &admissionregistrationv1.MutatingWebhookConfiguration{}
	if err := json.Unmarshal(text, configuration); err != nil {
		return nil, err
	}
	for _, webhook := range configuration.Webhooks {
		if webhook.Rules[0].Operations[0] == admissionregistrationv1.Create {
			return &webhook.ClientConfig, nil
		}
	}
	return nil, errors.New("no webhook for CREATE is registered")
}

// call sends a review to a webhook, and reads the answer into it.
func call(ctx context.Context, webhook *admissionregistrationv1.WebhookClientConfig, review *admissionv1.AdmissionReview) error {
	body, err := json.Marshal(review)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, *webhook.URL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	web, err := rest.HTTPClientFor(&rest.Config{TLSClientConfig: rest.TLSClientConfig{CAData: webhook.CABundle}})
	if err != nil {
		return err
	}
	response, err := web.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the webhook answers %s", response.Status)
	}
	return json.NewDecoder(response.Body).Decode(review)
}
