package claim

import (
	"errors"
	"testing"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/controllers/door"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A replica that no server has answered of late leaves CREATEs unanswered: the classes, pools and consumers that it knows
// may be withdrawn.
func TestAnswer_WhileNothingIsSeen(t *testing.T) {
	t.Parallel()
	s := newScene(t, allocator.Options{}, offered())
	blind := errors.New("no server has answered")
	s.Sees = func() error { return blind }
	for _, dry := range []bool{false, true} {
		answer, err := s.Answer(t.Context(), door.Request{Cluster: "tenant", Claim: gen.Claim("c", gen.OfClass("internal")), DryRun: dry})
		if !errors.Is(err, blind) {
			t.Errorf("answered %+v, %v, dry: %t; want no answer", answer, err, dry)
		}
	}
	s.wantBlocks()
}
