package check

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/output"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/stage"
)

// With --wait the checks are repeated until none fails, or the time is over, and each new cause is said once.
func TestCheck_Wait(t *testing.T) {
	for name, test := range map[string]struct {
		wait        bool
		readyAt     int // which look finds nothing that fails; 0 is none
		looks, code int
		says        int
	}{
		"ready at once":   {true, 1, 1, exit.OK, 0},
		"ready later":     {true, 3, 3, exit.OK, 1},
		"never ready":     {true, 0, 11, exit.Unavailable, 1},
		"without waiting": {false, 3, 1, exit.Unavailable, 0},
	} {
		s, looks := stage.New(t), 0
		synctest.Test(t, func(t *testing.T) {
			p := patience{wait: test.wait, timeout: 10*between + between/2}
			list, err := p.repeat(t.Context(), s.Session, func(ctx context.Context) (checklist, error) {
				looks++
				found := complete(t)
				if looks != test.readyAt {
					found.trial = gen.Claim("trial")
				}
				return found.judge(), ctx.Err()
			})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if err := showChecks(s.Session, &output.Report{}, list); exit.CodeOf(err) != test.code {
				t.Errorf("%s: it ends with %v; want %d", name, err, test.code)
			}
		})
		if looks != test.looks {
			t.Errorf("%s: it has looked %d times; want %d", name, looks, test.looks)
		}
		if got := strings.Count(s.Said.String(), "waiting for controller: the CREATE of a claim is not answered"); got != test.says {
			t.Errorf("%s: it says %q; want the cause %d times", name, s.Said, test.says)
		}
	}
}

// A wait that is interrupted ends as such, and a first look that takes too long says so.
func TestCheck_WaitEnds(t *testing.T) {
	s := stage.New(t)
	synctest.Test(t, func(t *testing.T) {
		p := patience{wait: true, timeout: time.Minute}
		hangs := func(ctx context.Context) (checklist, error) { <-ctx.Done(); return checklist{}, ctx.Err() }
		if _, err := p.repeat(t.Context(), s.Session, hangs); exit.CodeOf(err) != exit.Unavailable {
			t.Errorf("a look that hangs ends with %v; want %d", err, exit.Unavailable)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(between, cancel)
		if _, err := p.repeat(ctx, s.Session, hangs); exit.CodeOf(err) != exit.Aborted {
			t.Errorf("an interrupted wait ends with %v; want %d", err, exit.Aborted)
		}
	})
}
