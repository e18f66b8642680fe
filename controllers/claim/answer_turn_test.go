package claim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"k8s.io/utils/clock"
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
	"github.com/kcp-ipam/ipam/test/testbed"
)

// engaging shows no workspace as engaged at the first call, and all of them afterwards.
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

// A second CREATE of a name gets no answer while the first CREATE is not settled. The first CREATE is settled when its
// claim is seen, when it fails, or after a minute. Then the second CREATE gets a block of its own.
func TestAnswer_WaitsForTheFirstCreate(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*scene, ledger.Holder){
		"the claim is seen": func(s *scene, h ledger.Holder) { s.Answers.Stored(h) },
		"the CREATE fails":  func(s *scene, h ledger.Holder) { s.Answers.Fail(h) },
		"a minute is over":  func(s *scene, _ ledger.Holder) { s.later(time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, allocator.Options{}, offered())
			claim := gen.Claim("c", gen.OfClass("internal"))
			answer := s.create(claim)
			again, err := s.Answer(t.Context(), door.Request{Cluster: "tenant", Claim: claim})
			if !errors.Is(err, promise.ErrTurn) || !errors.Is(err, door.ErrEarly) {
				t.Errorf("Answer = %+v, %v while the first CREATE is not settled; want %v", again, err, promise.ErrTurn)
			}
			end(s, ledger.Holder{Claim: ledger.ClaimID(id(answer)), Cluster: "tenant", Namespace: "default", Name: "c"})
			if again := s.create(claim); again.Status.AllocatedCIDR != "10.0.0.16/28" {
				t.Errorf("answered with %s once the first CREATE was settled; want 10.0.0.16/28", again.Status.AllocatedCIDR)
			}
		})
	}
}

// watched is a clock that calls the function read before it tells the time.
type watched struct {
	clock.PassiveClock
	read func()
}

func (w *watched) Now() time.Time {
	w.read()
	return w.PassiveClock.Now()
}

// While a second CREATE of a name waits for its turn, the claim of the first one is stored. The second CREATE then sees
// that claim, and gets no block.
func TestAnswer_SeesAClaimThatWasStoredWhileItWaited(t *testing.T) {
	t.Parallel()
	s := newScene(t, allocator.Options{}, offered())
	times := &watched{s.now, func() {}}
	s.Answers = promise.NewAnswers(testbed.Stopped{PassiveClock: times}, func(ledger.Holder) {})
	claim := gen.Claim("c", gen.OfClass("internal"))
	first := s.create(claim)
	waits, comes := make(chan struct{}), make(chan struct{})
	times.read = sync.OnceFunc(func() { close(waits) })
	go func() {
		defer close(comes)
		<-waits
		if err := s.tenant.Client.Create(t.Context(), bare(claim)); err != nil {
			t.Error(err)
		}
		s.Answers.Stored(ledger.Holder{Claim: ledger.ClaimID(id(first)), Cluster: "tenant", Namespace: "default", Name: "c"})
	}()
	again := s.create(gen.Claim("c", gen.UID("later"), gen.OfClass("internal")))
	<-comes
	if again.Status.AllocatedCIDR != "" || again.Refuse {
		t.Errorf("answered with %+v; want no block, and that the claim may be stored", again)
	}
	s.wantBlocks("10.0.0.0/28 bound " + id(first))
}

// If the caller of a CREATE has gone, Answer fails, and hints at the holder of the block that the CREATE has bound.
func TestAnswer_HintsAtTheBlockOfACreateThatFails(t *testing.T) {
	t.Parallel()
	s := newScene(t, allocator.Options{}, offered())
	ctx, cancel := context.WithCancel(t.Context())
	s.Ledger.Blocks = deserted{s.Ledger.Blocks, cancel}
	if answer, err := s.Answer(ctx, door.Request{Cluster: "tenant", Claim: gen.Claim("c", gen.OfClass("internal"))}); err == nil {
		t.Errorf("Answer = %+v of a CREATE that nobody waits for, want an error", answer)
	}
	blocks := testbed.Blocks(t, s.ledger)
	if len(s.suspected) != 1 || len(blocks) != 1 || blocks[0] != "10.0.0.0/28 bound "+string(s.suspected[0].Claim) {
		t.Errorf("suspected are %v, and the ledger has %v; want the holder of its one block suspected", s.suspected, blocks)
	}
}

// deserted cancels its caller's context at the end of each Bind, when the block is bound.
type deserted struct {
	views.Blocks
	cancel func()
}

func (d deserted) Bind(ctx context.Context, r ledger.Request) (ledger.Block, error) {
	b, err := d.Blocks.Bind(ctx, r)
	d.cancel()
	return b, err
}

// A workspace gets no further answer after MaxUnseen answered CREATEs whose claims were not seen. Another workspace
// still gets answers.
func TestAnswer_LimitsCreatesWhoseClaimsWereNotSeen(t *testing.T) {
	t.Parallel()
	s := newScene(t, allocator.Options{}, offered())
	for i := range promise.MaxUnseen {
		s.create(gen.Claim(fmt.Sprintf("c-%d", i), gen.OfClass("internal"), gen.Length(32)))
	}
	answer, err := s.Answer(t.Context(), door.Request{Cluster: "tenant", Claim: gen.Claim("one-more", gen.OfClass("internal"), gen.Length(32))})
	if !errors.Is(err, promise.ErrUnseen) {
		t.Errorf("Answer = %+v, %v; want %v", answer, err, promise.ErrUnseen)
	}
	if _, err := s.Answer(t.Context(), door.Request{Cluster: "platform", Claim: gen.Claim("c", gen.OfClass("internal"), gen.Length(32))}); err != nil {
		t.Errorf("another workspace: %v", err)
	}
}

// A CREATE waits for its workspace, which has bound the API a moment ago. In a workspace that stays unknown it gets
// errNewcomer.
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
