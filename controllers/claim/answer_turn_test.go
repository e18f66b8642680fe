package claim

import (
	"context"
	"errors"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/controllers/door"
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/controllers/internal/views"
	"github.com/kcp-ipam/ipam/test/gen"
)

// turning are reservations. One of them is settled right after so many looks.
type turning struct {
	views.Reservations
	looks  int
	settle func()
}

func (s *turning) Has(id ledger.ClaimID) bool {
	has := s.Reservations.Has(id)
	if s.looks--; s.looks == 0 {
		s.settle()
	}
	return has
}

// engaging are workspaces that are engaged after the first question for one.
type engaging struct {
	catalog.Clusters
	asked bool
}

func (e *engaging) GetCluster(ctx context.Context, name multicluster.ClusterName) (cluster.Cluster, error) {
	if !e.asked {
		e.asked = true
		return nil, multicluster.ErrClusterNotFound
	}
	return e.Clusters.GetCluster(ctx, name)
}

// A second CREATE of a claim waits for the first one, and is answered when that is settled. Else it
// is not, and shares nothing with it.
func TestAnswer_WaitsForTheFirstCreate(t *testing.T) {
	t.Parallel()
	s := newScene(t, allocator.Options{}, offered())
	claim := gen.Claim("c", gen.OfClass("internal"))
	answer := s.create(claim)
	s.known(claim)
	if again, err := s.Answer(t.Context(), door.Request{Cluster: "tenant", Claim: claim}); !errors.Is(err, errTurn) {
		t.Errorf("Answer = %+v, %v while the first CREATE is not settled; want %v", again, err, errTurn)
	}
	claim.Status = answer.Status
	shown, _ := promise.Shown("tenant", claim)
	s.Ledger.Reservations = &turning{Reservations: s.ledger.Reservations(), looks: 2, settle: func() {
		if _, ok, err := s.ledger.Reservations().Confirm(t.Context(), shown); err != nil || !ok {
			t.Errorf("Confirm = %t, %v", ok, err)
		}
	}}
	if again := s.create(claim); again.Status.AllocatedCIDR != "10.0.0.16/28" {
		t.Errorf("answered with %s after the first CREATE was settled; want 10.0.0.16/28", again.Status.AllocatedCIDR)
	}
}

// A workspace that has bound the API a moment ago is waited for. One that nobody knows gets no answer.
func TestAnswer_WaitsForANewWorkspace(t *testing.T) {
	t.Parallel()
	s := newScene(t, allocator.Options{}, offered())
	known := directory.New(directory.Workspace{Cluster: "platform", Path: "root:ipam"})
	s.Directory, s.Catalog.Directory = known, known
	claim := gen.Claim("c", gen.OfClass("internal"))
	if answer, err := s.Answer(t.Context(), door.Request{Cluster: "tenant", Claim: claim}); !errors.Is(err, errNewcomer) {
		t.Errorf("Answer = %+v, %v to a workspace that nobody knows; want %v", answer, err, errNewcomer)
	}
	known.Seen("endpoint", binding())
	s.Catalog.Clusters = &engaging{Clusters: s.Catalog.Clusters}
	if answer := s.create(claim); answer.Status.AllocatedCIDR != "10.0.0.0/28" {
		t.Errorf("answered with %+v; want 10.0.0.0/28", answer.Status)
	}
}
