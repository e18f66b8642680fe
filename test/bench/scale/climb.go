package scale

import (
	"context"
	"time"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/bench/harness"
)

// resting is how long the controller is watched doing nothing.
const resting = 15 * time.Second

// step is what was measured with one number of workspaces.
type step struct {
	workspaces, claims int // that there are
	newcomers, filled  int // of them, those that came with this step
	// The controller's size before the workspaces of this step were bound, after that, and
	// once they were filled.
	before, bound, full size
	idle                float64 // processors it takes doing nothing
	samples             []sample
	restarted           size // once it was started anew and has looked at everything
	begin               begin
	bare                *baseline
}

// baseline is the bare controller at the same place.
type baseline struct {
	size  size
	begin begin
}

// climb measures step by step.
func (s *stage) climb(ctx context.Context) ([]*step, error) {
	var steps []*step
	for _, n := range s.opts.workspaces {
		claims := max(s.opts.claimsAt(n), s.filled)
		st := &step{workspaces: n, claims: claims, newcomers: n - len(s.tenants), filled: claims - s.filled}
		if err := s.climbTo(ctx, st); err != nil {
			return nil, err
		}
		steps = append(steps, st)
	}
	return steps, nil
}

func (s *stage) climbTo(ctx context.Context, st *step) (err error) {
	s.Say("%d workspaces, %d claims", st.workspaces, st.claims)
	if st.before, err = s.ipam.size(ctx); err != nil {
		return err
	}
	if err := s.grow(ctx, st.workspaces); err != nil {
		return err
	}
	if st.bound, err = s.ipam.size(ctx); err != nil {
		return err
	}
	if err := s.fill(ctx, st.filled); err != nil {
		return err
	}
	if st.full, err = s.ipam.size(ctx); err != nil {
		return err
	}
	if err := s.rest(ctx, st); err != nil {
		return err
	}
	for _, n := range s.opts.clients {
		one, err := s.sample(ctx, n, st.idle)
		if err != nil {
			return err
		}
		s.Say("%d clients: p50 %.1f ms, p95 %.1f ms, processor time %.1f + %.1f ms", n, one.p50, one.p95, one.controller, one.kcp)
		st.samples = append(st.samples, one)
	}
	return s.restart(ctx, st)
}

// rest finds out what the controller takes doing nothing.
func (s *stage) rest(ctx context.Context, st *step) error {
	before, err := s.ipam.metrics(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	select {
	case <-time.After(resting):
	case <-ctx.Done():
		return ctx.Err()
	}
	after, err := s.ipam.metrics(ctx)
	if err != nil {
		return err
	}
	const spent = "process_cpu_seconds_total"
	st.idle = (after.Sum(spent) - before.Sum(spent)) / time.Since(began).Seconds()
	return nil
}

// restart has the bare controller take the place of ipam-controller, and that start anew.
func (s *stage) restart(ctx context.Context, st *step) (err error) {
	if err := s.ipam.Stop(); err != nil {
		return err
	}
	if s.opts.bare {
		s.Say("starting the bare controller")
		st.bare = &baseline{}
		if st.bare.begin, err = s.begin(ctx, s.bare); err != nil {
			return err
		}
		if st.bare.size, err = s.bare.size(ctx); err != nil {
			return err
		}
		if err := s.bare.Stop(); err != nil {
			return err
		}
	}
	if st.begin, err = s.begin(ctx, s.ipam); err != nil {
		return err
	}
	s.Say("started anew: ready in %.1f s, settled in %.1f s, %.0f writes", st.begin.ready.Seconds(), st.begin.settled.Seconds(), st.begin.writes)
	st.restarted, err = s.ipam.size(ctx)
	return err
}

// server reads kcp's metrics.
func (s *stage) server(ctx context.Context) (harness.Metrics, error) {
	text, err := s.Metrics(ctx)
	if err != nil {
		return nil, err
	}
	return harness.ParseMetrics(text)
}

// writes counts the requests that kcp has answered which write an object of the API.
func (s *stage) writes(ctx context.Context) (float64, error) {
	m, err := s.server(ctx)
	if err != nil {
		return 0, err
	}
	var total float64
	for _, verb := range []string{"POST", "PUT", "PATCH", "DELETE", "APPLY"} {
		total += m.Sum("apiserver_request_total", "group", ipamv1alpha1.GroupName, "verb", verb)
	}
	return total, nil
}
