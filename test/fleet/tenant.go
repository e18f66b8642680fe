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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// Claim makes a claim in a workspace, as a tenant would, and returns once it is bound.
func (s *Server) Claim(ctx context.Context, workspace int, claim *ipamv1alpha1.IPClaim) error {
	text, err := json.Marshal(claim)
	if err != nil {
		return err
	}
	t := s.tables[ipamGroup+"/ipclaims"]
	p := place{s.crowd.clusters[workspace], claim.Namespace, claim.Name}
	q := request{table: t, scope: scope{cluster: p.cluster, namespace: p.namespace}, version: t.versions[0]}
	if _, refusal := s.create(q, text); refusal != nil {
		return refusal
	}
	for {
		s.mu.RLock()
		_, news, _ := t.since(s.revision)
		object, _ := t.get(p)
		s.mu.RUnlock()
		now := &ipamv1alpha1.IPClaim{}
		if err := json.Unmarshal(object, now); err != nil {
			return fmt.Errorf("read claim %s: %w", claim.Name, err)
		}
		if now.Status.Phase == ipamv1alpha1.ClaimBound {
			return nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return fmt.Errorf("claim %s is not bound: %w", claim.Name, ctx.Err())
		}
	}
}

// identity is the hash of the APIExport's identity, which the bindings name too.
const identity = "5e0e5f7d3a0c4b2f9f6e1d8c7b6a59483726150493827160"

// Furnish makes the APIExport of the platform, and its endpoints at the URL of the server.
func (s *Server) Furnish(url string) error {
	conditions := `[{"type":"APIExportValid","status":"True","lastTransitionTime":"2026-01-02T03:04:05Z"},{"type":"PartitionValid","status":"True","lastTransitionTime":"2026-01-02T03:04:05Z"}]`
	endpoints := make([]map[string]string, 0, s.crowd.shards)
	for n := range s.crowd.shards {
		endpoints = append(endpoints, map[string]string{"url": url + "/services/apiexport/" + shardName(n)})
	}
	urls, err := json.Marshal(endpoints)
	if err != nil {
		return err
	}
	for plural, text := range map[string]string{
		"apiexports": fmt.Sprintf(`{"apiVersion":"apis.kcp.io/v1alpha2","kind":"APIExport","metadata":{"name":%q,"annotations":{"kcp.io/path":%q}},"spec":{},"status":{"identityHash":%q}}`, ipamGroup, s.platform.name, identity),
		"apiexportendpointslices": fmt.Sprintf(`{"apiVersion":"apis.kcp.io/v1alpha1","kind":"APIExportEndpointSlice","metadata":{"name":%q},
			"spec":{"export":{"name":%q,"path":%q}},"status":{"conditions":%s,"endpoints":%s}}`, ipamGroup, ipamGroup, s.platform.name, conditions, urls),
	} {
		if err := s.make(kcpGroup+"/"+plural, s.platform.cluster, []byte(text)); err != nil {
			return err
		}
	}
	return nil
}

// Create makes an object of the group of the project in the platform workspace.
func (s *Server) Create(plural string, object client.Object) error {
	text, err := json.Marshal(object)
	if err != nil {
		return err
	}
	return s.make(ipamGroup+"/"+plural, s.platform.cluster, text)
}

// PlatformUID returns the UID of an object of the platform, and its logical cluster.
func (s *Server) PlatformUID(plural, name string) (uid, cluster string) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	text, _ := s.tables[ipamGroup+"/"+plural].get(place{cluster: s.platform.cluster, name: name})
	object := &unstructured.Unstructured{}
	_ = json.Unmarshal(text, &object.Object) // as stored
	return string(object.GetUID()), s.platform.cluster
}

func (s *Server) make(table, cluster string, text []byte) error {
	t := s.tables[table]
	q := request{table: t, scope: scope{cluster: cluster}, version: t.versions[0]}
	if _, refusal := s.create(q, text); refusal != nil {
		return refusal
	}
	return nil
}

// Ask asks the controller's registered webhook about the CREATE of a claim in a workspace, as kcp would. It returns
// the claim with the answer. It does not store the claim, so the controller frees the claim's block after a while.
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

// registered returns how to reach the webhook that answers CREATE.
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

// call sends a review to a webhook, and reads the answer into the review.
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
