package fleet

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// Claim makes a claim in a workspace, as a tenant would, and returns when it is bound.
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

// Leave takes a workspace away as kcp does when it is deleted: its binding is marked, all its
// claims and records are deleted, and then the binding is.
func (s *Server) Leave(workspace int) error {
	cluster := s.crowd.clusters[workspace]
	binding := request{table: s.tables[kcpGroup+"/apibindings"], scope: scope{cluster: cluster}, version: "v1alpha2", name: "ipam"}
	if _, refusal := s.remove(binding, nil); refusal != nil {
		return refusal
	}
	for _, plural := range []string{"ipclaims", "ipallocations"} {
		if err := s.clear(s.tables[ipamGroup+"/"+plural], cluster); err != nil {
			return err
		}
	}
	if _, refusal := s.change(binding, "PATCH", []byte(`{"metadata":{"finalizers":null}}`), false); refusal != nil {
		return refusal
	}
	return nil
}

// clear deletes what a table has of a logical cluster.
func (s *Server) clear(t *table, cluster string) error {
	s.mu.RLock()
	objects, _ := t.page(scope{cluster: cluster}, 0, 0)
	s.mu.RUnlock()
	for _, text := range objects {
		object := &unstructured.Unstructured{}
		if err := json.Unmarshal(text, &object.Object); err != nil {
			return err
		}
		q := request{table: t, scope: scope{cluster: cluster, namespace: object.GetNamespace()}, version: t.versions[0], name: object.GetName()}
		// The controller deletes records, too.
		if _, refusal := s.remove(q, nil); refusal != nil && !apierrors.IsNotFound(refusal) {
			return refusal
		}
	}
	return nil
}
