package derived

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// each visits all combinations of facts.
func each(visit func(facts)) {
	bit := func(n, i int) bool { return n>>i&1 == 1 }
	for at := gone; at <= draining; at++ {
		for of := unknown; of <= released; of++ {
			for n := range 1 << 7 {
				visit(facts{
					stage: at, holder: of, shown: bit(n, 0), old: bit(n, 1), wanted: bit(n, 2), held: bit(n, 3), shared: bit(n, 4),
					used: bit(n, 5), over: bit(n, 6),
				})
			}
		}
	}
}

// No combination of facts moves a pool against a rule.
func TestNext_KeepsTheRules(t *testing.T) {
	t.Parallel()
	for rule, broken := range map[string]func(facts, move) bool{
		"a pool that is gone, or goes, is left alone": func(f facts, m move) bool {
			return (f.stage == gone || f.stage == draining) && m != rests
		},
		"a pool whose IPPool is there stays, unless it is idle for long": func(f facts, m move) bool {
			return f.stage == open && f.shown && !f.old && m != rests
		},
		"a pool in use is neither closed nor retired, unless it was idle when it was looked at": func(f facts, m move) bool {
			return f.stage == open && f.used && !f.old && (m == closes || m == retires)
		},
		"a closed pool that is held is retired by the release of its holder alone": func(f facts, m move) bool {
			return f.stage == closing && f.held && m == retires
		},
		"a closed pool is opened for its claim after its time, or for a CREATE if all workspaces share it": func(f facts, m move) bool {
			return m == reopens && (f.stage != closing || !f.held || (!f.over || f.holder != there) && (!f.wanted || !f.shared))
		},
		"a range is closed for a Terminating claim alone": func(f facts, m move) bool { return m == closes && f.holder != leaving },
		"an open pool is published for a CREATE, unless its DELETE was answered": func(f facts, m move) bool {
			return f.stage == open && f.wanted && !f.shown && !f.old && m != publishes && (f.used || f.holder != released && f.holder != leaving)
		},
		"a pool is published only where it is open and has no IPPool": func(f facts, m move) bool {
			return m == publishes && (f.stage != open || f.shown)
		},
	} {
		each(func(f facts) {
			if m := next(f); broken(f, m) {
				t.Errorf("%s: %+v moves by %d", rule, f, m)
			}
		})
	}
}

// succeeds starts another process a minute later, which becomes the writer of the ledger. It knows only the ledger and
// the objects.
func (s *scene) succeeds() {
	s.Helper()
	s.clock.Step(time.Minute)
	s.start(s.etcd, s.workspace)
}

// A new leader does not know for which claim the former leader has closed a range. It finds the range open, without its
// IPPool, and asks for the claim. From the answer it opens the range, closes it again, or retires it.
func TestStep_AsksForTheClaimAfterAFailover(t *testing.T) {
	t.Parallel()
	stays := []string{"example.com/stays"}
	for name, tt := range map[string]struct {
		finalizers []string
		deleted    bool
		then       func(s *scene, p ledger.Pool) // before the new leader looks
		want       string                        // open, unpublished, closed or gone
	}{
		"the claim is there":                   {want: "open"},
		"the claim is gone":                    {deleted: true, want: "gone"},
		"it is gone, and nobody saw it":        {deleted: true, then: func(s *scene, _ ledger.Pool) { s.unseen = true }, want: "unpublished"},
		"it is Terminating":                    {stays, true, nil, "closed"},
		"it is Terminating, and a CREATE came": {stays, true, func(s *scene, p ledger.Pool) { s.guest(p, "guest") }, "open"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			claim := gen.Claim("range-net", gen.OfClass("net"))
			claim.Finalizers = tt.finalizers
			testbed.Create(t, s.workspace, claim)
			p := s.network("net", "a", "root", 24, holderOf(claim))
			claim.Status.AllocatedCIDR = p.CIDR.String()
			s.mustClose(claim)
			if tt.deleted {
				s.deletes(claim)
			}
			s.succeeds()
			if tt.then != nil {
				tt.then(s, p)
			}
			s.sweeps()
			now, known := s.alloc.Pools().Get(p.ID)
			got := "gone"
			switch {
			case known && now.Closed():
				got = "closed"
			case known && s.object(p) == nil:
				got = "unpublished"
			case known:
				got = "open"
			}
			if got != tt.want || got != "open" && s.object(p) != nil {
				t.Errorf("the range is %s, with the object %v; want it %s", got, s.object(p), tt.want)
			}
		})
	}
}

// The first CREATE after a failover is served in a range without its IPPool only if the range's claim is there. If the
// claim is gone, the range is retired. If the claim is Terminating, the range is closed.
func TestPublish_AsksForTheClaimAfterAFailover(t *testing.T) {
	t.Parallel()
	stays := []string{"example.com/stays"}
	for name, tt := range map[string]struct {
		finalizers []string
		deleted    bool
		want       func(error) bool
	}{
		"there": {want: func(err error) bool { return err == nil }},
		"gone":  {deleted: true, want: func(err error) bool { return errors.Is(err, ledger.ErrUnknownPool) }},
		"Terminating": {stays, true, func(err error) bool {
			_, releasing := errors.AsType[*ledger.ReleasingError](err)
			return releasing
		}},
	} {
		s := newScene(t)
		claim := gen.Claim("range-net", gen.OfClass("net"))
		claim.Finalizers = tt.finalizers
		testbed.Create(t, s.workspace, claim)
		p := s.network("net", "a", "root", 24, holderOf(claim))
		claim.Status.AllocatedCIDR = p.CIDR.String()
		s.mustClose(claim)
		if tt.deleted {
			s.deletes(claim)
		}
		s.succeeds()
		if err := s.Publish(t.Context(), p); !tt.want(err) || (err == nil) != (s.object(p) != nil) {
			t.Errorf("the claim is %s: Publish = %v, with the object %v", name, err, s.object(p))
		}
	}
}

// A process that has lost the office while it closes a range does not allow the DELETE: the next process has found the
// range open, and has bound a block in it.
func TestCloseRange_NeedsTheOffice(t *testing.T) {
	s := newScene(t)
	claim, p := s.ranged("net", "a", "root", 24)
	former := s.Controller
	var next *ledger.Block
	s.clusters["w"] = &testbed.Workspace{Client: slowly{Client: s.workspace, first: func() { // the range is closed, and its IPPool is deleted
		s.start(s.etcd, s.workspace)
		b := must.Get(s.alloc.Bind(t.Context(), ledger.Request{Pool: p.ID, Length: 32, Holder: holderOf(gen.Claim("inside"))}))(t)
		next = &b
	}}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	inside, err := former.CloseRange(ctx, tenant, claim, false)
	if next == nil || !errors.Is(err, ledger.ErrDeposed) {
		t.Errorf("CloseRange = %q, %v, and another process has bound %v; want ErrDeposed", inside, err, next)
	}
	s.sweeps()
	s.wantOpen(p)
}

// A process that has lost the office allows no DELETE on its old memory: neither that of a claim whose range it does
// not know, nor that of a class whose pools it does not know.
func TestCloseRange_NeedsTheOfficeEvenIfItKnowsNoRange(t *testing.T) {
	s := newScene(t)
	claim := gen.Claim("range-net", gen.OfClass("net"))
	testbed.Create(t, s.workspace, claim)
	former := s.Controller
	s.start(s.etcd, s.workspace)
	p := s.network("net", "a", "root", 24, holderOf(claim))
	claim.Status.AllocatedCIDR = p.CIDR.String()
	s.bind(p, "inside")
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if inside, err := former.CloseRange(ctx, tenant, claim, false); !errors.Is(err, ledger.ErrDeposed) {
		t.Errorf("CloseRange = %q, %v; want ErrDeposed", inside, err)
	}
	if used, err := former.RetireClass(ctx, "net"); !errors.Is(err, ledger.ErrDeposed) {
		t.Errorf("RetireClass = %q, %v; want ErrDeposed", used, err)
	}
}
