package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/recover"
	"github.com/kcp-ipam/ipam/test/bench/harness"
	"github.com/kcp-ipam/ipam/test/framework/local"
	"github.com/kcp-ipam/ipam/test/framework/retry"
	"github.com/kcp-ipam/ipam/test/gen"
)

const (
	// patience is how long the controller may take for anything before the program gives up.
	patience = 15 * time.Minute
	// clients make samples timed claims in all, side by side.
	clients, samples = 8, 500
	// shards is how many endpoints serve the workspaces.
	shards = 2
)

// step has the measurements at one number of workspaces and of claims.
type step struct {
	workspaces, claims int

	one, empty, full size // with one workspace, with all that have a claim each, with all claims

	created, bound, seen time.Duration // after the start: the first CREATE that is answered, the first claim bound without that, and all claims seen
	createdAgain, again  time.Duration // created and bound again, after the controller was killed
	requests             int64         // until all claims were seen
	work                 float64       // seconds of processor time until then

	idle  float64 // of a processor
	sweep float64 // seconds

	verification     time.Duration
	verificationWork float64 // seconds of processor time

	p50, p95 time.Duration
	cpu      float64 // of a claim, in seconds

	killed, stopped time.Duration // the longest time between two answers to CREATE while a standby took over
}

// measure measures the three sizes of a step. If the step is the largest, it measures everything else, too.
func measure(ctx context.Context, opts *options, st *step, say harness.Say) error {
	for _, of := range []struct {
		size               *size
		workspaces, claims int
	}{{&st.one, shards, shards}, {&st.empty, st.workspaces, st.workspaces}} {
		if err := sizeOf(ctx, opts, of.size, of.workspaces, of.claims, say); err != nil {
			return err
		}
	}
	s, err := newStage(ctx, opts, st.workspaces, st.claims, say)
	if err != nil {
		return err
	}
	if err := s.measure(ctx, opts, st); err != nil {
		say("the log of the controller is kept in %s", s.Log())
		return err
	}
	return s.close()
}

// sizeOf measures the size of a controller with these numbers of workspaces and claims.
func sizeOf(ctx context.Context, opts *options, of *size, workspaces, claims int, say harness.Say) error {
	s, err := newStage(ctx, opts, workspaces, claims, say)
	if err != nil {
		return err
	}
	if _, err := s.begin(ctx); err != nil {
		return err
	}
	if *of, err = s.size(ctx); err != nil {
		return err
	}
	say("%d workspaces, %d claims: %s", workspaces, claims, of)
	return s.close()
}

// begin starts the controller, and returns how long the controller took to reconcile every claim.
func (s *stage) begin(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	if err := s.Start(ctx); err != nil {
		return 0, err
	}
	return s.look(ctx, began)
}

// look waits until every claim was reconciled, and returns when the last one was.
func (s *stage) look(ctx context.Context, began time.Time) (time.Duration, error) {
	var last float64
	var changed time.Time
	err := retry.Do(ctx, patience, "wait for every claim to be looked at", func(ctx context.Context) error {
		m, err := s.metrics(ctx)
		if err != nil {
			return err
		}
		looks, queued := m.Sum("controller_runtime_reconcile_total", "controller", "claim"), m.Sum("workqueue_depth")
		if looks != last {
			last, changed = looks, time.Now()
		}
		if looks < float64(s.crowd.Claims()) || queued > 0 || time.Since(changed) < time.Second {
			return fmt.Errorf("%.0f of %d were, and %.0f are queued", looks, s.crowd.Claims(), queued)
		}
		return nil
	})
	return changed.Sub(began), err
}

func (s *stage) measure(ctx context.Context, opts *options, st *step) (err error) {
	if err := s.arrive(ctx, st); err != nil {
		return err
	}
	if st.full, err = s.size(ctx); err != nil {
		return err
	}
	s.say("%d workspaces, %d claims: %s; CREATE answered after %.1f s, a claim bound after %.1f s, all seen after %.1f s and %.1f s of a processor",
		st.workspaces, st.claims, st.full, st.created.Seconds(), st.bound.Seconds(), st.seen.Seconds(), st.work)
	if err := s.rest(ctx, opts, st); err != nil {
		return err
	}
	if err := s.verify(ctx, st); err != nil {
		return err
	}
	if err := s.sample(ctx, st); err != nil {
		return err
	}
	if err := s.Kill(); err != nil {
		return err
	}
	st.createdAgain, st.again, err = s.first(ctx, "again")
	s.say("killed and started again: CREATE answered after %.1f s, a claim bound after %.1f s", st.createdAgain.Seconds(), st.again.Seconds())
	if err != nil || s.standby == nil {
		return err
	}
	return s.takeOver(ctx, st)
}

// takeOver measures two changes of the leader: first the controller is killed, then the standby is asked to stop.
func (s *stage) takeOver(ctx context.Context, st *step) (err error) {
	if err := stand(ctx, s.standby); err != nil {
		return err
	}
	if st.killed, err = s.gap(ctx, "killed", s.Kill); err != nil {
		return err
	}
	if err := stand(ctx, s.Controller); err != nil {
		return err
	}
	st.stopped, err = s.gap(ctx, "stopped", s.standby.Stop)
	s.say("a standby takes over: no answer to CREATE for %.1f s after the leader was killed, for %.1f s while it stopped", st.killed.Seconds(), st.stopped.Seconds())
	return err
}

// stand starts a standby, and waits until its caches are filled. That is so once it uses at most a tenth of a
// processor.
func stand(ctx context.Context, standby *local.Controller) error {
	if err := standby.Start(ctx); err != nil {
		return err
	}
	return retry.Do(ctx, patience, "wait for a standby to have filled its caches", func(ctx context.Context) error {
		before, err := taken(ctx, standby)
		if err != nil {
			return err
		}
		retry.Pause(ctx, time.Second)
		after, err := taken(ctx, standby)
		if err == nil && after-before > 0.1 {
			err = fmt.Errorf("it takes %.2f of a processor", after-before)
		}
		return err
	})
}

// taken returns how many seconds of processor time a controller has used.
func taken(ctx context.Context, c *local.Controller) (float64, error) {
	text, err := c.Metrics(ctx)
	if err != nil {
		return 0, err
	}
	m, err := harness.ParseMetrics(text)
	return m.Sum(spent), err
}

// gap loses the leader, and returns the longest time between two answers to CREATE until another controller answers.
func (s *stage) gap(ctx context.Context, name string, lose func() error) (longest time.Duration, err error) {
	lost, last := make(chan error, 1), time.Now()
	go func() { lost <- lose() }()
	for n, gone := 0, false; !gone; n++ {
		select {
		case err := <-lost:
			if err != nil {
				return 0, err
			}
			gone = true
		default:
		}
		if err := s.create(ctx, gen.Claim(fmt.Sprint(name, "-", n), gen.OfClass("shared"), gen.Length(32))); err != nil {
			return 0, err
		}
		longest, last = max(longest, time.Since(last)), time.Now()
	}
	return longest, nil
}

// arrive starts the controller, and measures it until it has reconciled all claims.
func (s *stage) arrive(ctx context.Context, st *step) (err error) {
	began := time.Now()
	if st.created, st.bound, err = s.first(ctx, "first"); err != nil {
		return err
	}
	if st.seen, err = s.look(ctx, began); err != nil {
		return err
	}
	m, err := s.metrics(ctx)
	st.work = m.Sum(spent)
	for _, count := range s.server.Requests() {
		st.requests += count
	}
	return err
}

// first starts the controller. It returns the time until the first CREATE is answered, and the time until a claim is
// bound whose CREATE the controller was not asked about. Both claims are made meanwhile.
func (s *stage) first(ctx context.Context, name string) (created, bound time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	began := time.Now()
	group, started := errgroup.WithContext(ctx)
	group.Go(func() error { return s.Start(started) })
	group.Go(func() error {
		err := s.create(started, gen.Claim(name+"-created", gen.OfClass("shared"), gen.Length(32)))
		created = time.Since(began)
		return err
	})
	group.Go(func() error {
		err := s.server.Claim(started, 0, gen.Claim(name, gen.OfClass("shared"), gen.Length(32)))
		bound = time.Since(began)
		return err
	})
	err = group.Wait()
	return created, bound, err
}

// create waits until the CREATE of a claim is answered with a block.
func (s *stage) create(ctx context.Context, claim *ipamv1alpha1.IPClaim) error {
	return retry.Do(ctx, patience, "wait for CREATE to be answered", func(ctx context.Context) error {
		answered, err := s.server.Ask(ctx, 0, claim)
		if err == nil && answered.Status.AllocatedCIDR == "" {
			err = fmt.Errorf("it is answered with %+v", answered.Status)
		}
		return err
	})
}

// rest measures what the controller uses when it does nothing but sweep. It begins after the first round of the
// sweep, which is not spread out in time.
func (s *stage) rest(ctx context.Context, opts *options, st *step) error {
	err := retry.Do(ctx, patience, "wait for the first round of the sweep to end", func(ctx context.Context) error {
		m, err := s.metrics(ctx)
		if err == nil && m.Sum("ipam_sweep_duration_seconds") == 0 {
			err = errors.New("it has not")
		}
		return err
	})
	if err != nil {
		return err
	}
	before, err := s.metrics(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	select {
	case <-time.After(opts.resting):
	case <-ctx.Done():
		return ctx.Err()
	}
	after, err := s.metrics(ctx)
	if err != nil {
		return err
	}
	st.idle = (after.Sum(spent) - before.Sum(spent)) / time.Since(began).Seconds()
	st.sweep = after.Mean("ipam_sweep_duration_seconds")
	s.say("idle %.1f %% of a processor; a sweep %.2f s", st.idle*100, st.sweep)
	return nil
}

// verify measures a comparison of the ledger with all claims and records, which the controller also makes from time
// to time.
func (s *stage) verify(ctx context.Context, st *step) error {
	before, err := s.metrics(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	report, err := recover.Ask(ctx, s.socket)
	if err != nil {
		return err
	}
	st.verification = time.Since(began)
	after, err := s.metrics(ctx)
	st.verificationWork = after.Sum(spent) - before.Sum(spent)
	s.say("a verification took %.1f s and %.1f s of a processor, and has %d findings", st.verification.Seconds(), st.verificationWork, len(report.Findings))
	return err
}

// sample measures claims of some clients, each in a workspace of its own.
func (s *stage) sample(ctx context.Context, st *step) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	before, err := s.metrics(ctx)
	if err != nil {
		return err
	}
	took := make([][]time.Duration, clients)
	group, timed := errgroup.WithContext(ctx)
	for c := range clients {
		group.Go(func() error {
			for i := range samples / clients {
				began := time.Now()
				claim := gen.Claim(fmt.Sprintf("timed-%d-%d", c, i), gen.OfClass("shared"), gen.Length(32))
				if err := s.server.Claim(timed, c*st.workspaces/clients, claim); err != nil {
					return err
				}
				took[c] = append(took[c], time.Since(began))
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	after, err := s.metrics(ctx)
	if err != nil {
		return err
	}
	all := slices.Concat(took...)
	slices.Sort(all)
	st.p50, st.p95 = all[len(all)/2], all[len(all)*95/100]
	st.cpu = (after.Sum(spent) - before.Sum(spent)) / float64(len(all))
	s.say("%d clients: p50 %.1f ms, p95 %.1f ms, %.1f ms of a processor a claim", clients, ms(st.p50), ms(st.p95), st.cpu*1000)
	return nil
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
