package fleet

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// identity is the hash of the APIExport's identity, which the bindings name too.
const identity = "5e0e5f7d3a0c4b2f9f6e1d8c7b6a59483726150493827160"

// Furnish makes the APIExport of the platform and its endpoints, at the URL that the server is
// reached by.
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
