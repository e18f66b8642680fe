package pool

import (
	"context"
	"errors"
	"testing"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/test/gen"
)

type oracle struct {
	answer live.Answer
	err    error
}

func (o oracle) Holder(context.Context, allocator.Holder) (live.Answer, error) {
	return o.answer, o.err
}

// A cache may show a pool that others have retired: it is entered only if a server says
// that it is there to stay.
func TestExists(t *testing.T) {
	for name, test := range map[string]struct {
		oracle
		want, stale bool
	}{
		"there":              {oracle: oracle{answer: live.Answer{Verdict: live.Alive}}, want: true},
		"being deleted":      {oracle: oracle{answer: live.Answer{Verdict: live.Alive, Leaving: true}}, stale: true},
		"gone":               {oracle: oracle{answer: live.Answer{Verdict: live.Gone}}, stale: true},
		"nobody can say":     {},
		"workspace has left": {oracle: oracle{answer: live.Answer{Verdict: live.Unbound}}},
		"no answer":          {oracle: oracle{err: errors.New("timeout")}},
	} {
		t.Run(name, func(t *testing.T) {
			p := &pass{Reconciler: &Reconciler{oracle: test.oracle}, pool: gen.Pool("p")}
			if err := p.exists(t.Context()); (err == nil) != test.want || errors.Is(err, errStale) != test.stale {
				t.Errorf("exists = %v; want it to be so: %t, stale: %t", err, test.want, test.stale)
			}
		})
	}
}
