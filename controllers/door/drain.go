package door

import (
	"context"
	"encoding/json"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Drainer knows the pools that are about to be empty. It is safe for concurrent use.
type Drainer interface {
	// Drained waits until the status of a pool shows no block any more, or until ctx ends. It returns at once if a holder
	// of a block is there to stay.
	Drained(ctx context.Context, pool Pool)
}

// Pool is a pool that is being deleted.
type Pool struct {
	Cluster ledger.ClusterName
	Name    string
	UID     types.UID
}

// drain allows the DELETE of a pool, and lets it wait for the releases that are under way. The policy ipam-pools decides
// after that. It goes by the pool as the API server read it before this call; if it refuses, the API server reads the pool
// once more, and begins again with a newer one.
func (s *server) drain(ctx context.Context, req *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
	stored := &metav1.PartialObjectMetadata{}
	if err := json.Unmarshal(req.OldObject.Raw, stored); err != nil {
		return nil, fmt.Errorf("read the pool: %w", err)
	}
	pool := Pool{Cluster: s.in(stored), Name: stored.Name, UID: stored.UID}
	if s.drainer != nil && pool.Cluster != "" {
		// Where many sleep, the policy decides at once.
		_ = Sleep(ctx, pool.Cluster, func(ctx context.Context) error {
			s.drainer.Drained(ctx, pool)
			return nil
		})
	}
	return &admissionv1.AdmissionResponse{Allowed: true}, nil
}
