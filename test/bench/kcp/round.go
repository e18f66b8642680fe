package kcp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kcp-ipam/ipam/test/bench/harness"
	"github.com/kcp-ipam/ipam/test/bench/page"
	"github.com/kcp-ipam/ipam/test/bench/tenant"
)

// round is what one round has shown: how many answers there were, in a second too, how
// many milliseconds they took, and how many of processor time each.
type round struct {
	answers, rate   float64
	p50, p95, p99   float64
	controller, kcp float64
	// backlog is how many answered claims had no IPAllocation when the round was over, and
	// drained how many milliseconds later all had one.
	backlog, drained float64
	parts            []float64 // of the time of a CREATE, as parts says
}

// newRound sums up a round. It must have had an answer.
func newRound(took []time.Duration, lasted time.Duration) (round, error) {
	if len(took) == 0 {
		return round{}, errors.New("a round has seen no answer: give it more --round-seconds")
	}
	slices.Sort(took)
	at := func(q float64) float64 {
		return float64(took[int(q*float64(len(took)-1)+0.5)]) / float64(time.Millisecond)
	}
	return round{
		answers: float64(len(took)),
		rate:    float64(len(took)) / lasted.Seconds(),
		p50:     at(0.50), p95: at(0.95), p99: at(0.99),
	}, nil
}

// spend notes what the answers of the round have cost, beyond what the processes take
// doing nothing.
func (r *round) spend(before, after usage, resting idle) {
	passed := float64(after.at.Sub(before.at))
	each := func(before, after time.Duration, share float64) float64 {
		return (float64(after-before) - share*passed) / float64(time.Millisecond) / r.answers
	}
	r.controller = each(before.controller, after.controller, resting.controller)
	r.kcp = each(before.kcp, after.kcp, resting.kcp)
	r.parts = partsOf(before, after)
}

// crowd lets clients claim side by side until the time is up, each its next claim when
// the last is answered.
func (s *side) crowd(ctx context.Context, k kind, clients int, during time.Duration) (round, error) {
	took, lasted, err := tenant.Crowd{Tenants: s.tenants, Clients: clients, Answered: k.answered, Options: k.options}.Claim(ctx, during)
	if err != nil {
		return round{}, err
	}
	shown, err := newRound(took, lasted)
	if err != nil {
		return round{}, err
	}
	err = s.drain(ctx, &shown)
	return shown, err
}

// drain notes how far the IPAllocations are behind the answers, and waits for them.
func (s *side) drain(ctx context.Context, shown *round) error {
	over := time.Now()
	backlog, err := tenant.Unrecorded(ctx, s.tenants)
	if err != nil || backlog == 0 {
		return err
	}
	shown.backlog = float64(backlog)
	err = harness.Eventually(ctx, patience, "every claim to have its IPAllocation", func(ctx context.Context) error {
		backlog, err := tenant.Unrecorded(ctx, s.tenants)
		if err == nil && backlog > 0 {
			err = fmt.Errorf("%d have none", backlog)
		}
		return err
	})
	shown.drained = float64(time.Since(over)) / float64(time.Millisecond)
	return err
}

// handover measures how long after the deletion of a claim the one that waits for its
// block is bound.
func (s *side) handover(ctx context.Context, during time.Duration) (round, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, during+patience, fmt.Errorf("not within %s", patience))
	defer cancel()
	t := s.tenants[0]
	holding := tenant.NewName()
	if _, err := t.Claim(ctx, holding, singleHeld.answered, singleHeld.options...); err != nil {
		return round{}, err
	}
	var took []time.Duration
	var lasted time.Duration
	for began := time.Now(); time.Since(began) < during; {
		next := tenant.NewName()
		if _, err := t.Claim(ctx, next, singleWaiting.answered, singleWaiting.options...); err != nil {
			return round{}, err
		}
		one, err := t.Hand(ctx, holding, next)
		if err != nil {
			return round{}, err
		}
		took = append(took, one)
		lasted += one
		holding = next
	}
	return newRound(took, lasted)
}

// parts are stretches of a CREATE's time that kcp and the controller measure themselves, each
// indented below the one that it is a part of.
var parts = []struct {
	name       string
	controller bool // measures it; else kcp does
	metric     string
	labels     []string
}{
	{"kcp serves the CREATE", false, "apiserver_request_duration_seconds", []string{"resource", "ipclaims", "verb", "POST"}},
	{"· its etcd stores the claim", false, "etcd_request_duration_seconds", []string{"resource", "ipclaims", "operation", "create"}},
	{"· it waits for the webhook", false, "apiserver_admission_webhook_admission_duration_seconds", []string{"operation", "CREATE"}},
	{"· · the controller answers", true, "ipam_create_answer_seconds", nil},
	{"· · · etcd takes the ledger's transaction", true, "ipam_ledger_transaction_seconds", nil},
}

// partsOf returns the means of the parts between two readings, in milliseconds; 0 where there was none.
func partsOf(before, after usage) []float64 {
	means := make([]float64, len(parts))
	for i, part := range parts {
		began, ended := before.kcpMetrics, after.kcpMetrics
		if part.controller {
			began, ended = before.controllerMetrics, after.controllerMetrics
		}
		sumBefore, countBefore := began.Observed(part.metric, part.labels...)
		sumAfter, countAfter := ended.Observed(part.metric, part.labels...)
		if n := countAfter - countBefore; n > 0 {
			means[i] = 1000 * (sumAfter - sumBefore) / n
		}
	}
	return means
}

// writeParts adds a table of where the time of a contest's CREATEs goes.
func (c contest) writeParts(b *strings.Builder) {
	fmt.Fprintf(b, "\nWhere the time of a CREATE goes, with %s: means of a round in ms, by the metrics of kcp and of the controller.\n\n| |", c.title)
	for _, who := range c.contestants {
		fmt.Fprintf(b, " %s |", who.name)
	}
	b.WriteString("\n|---|" + strings.Repeat("--:|", len(c.contestants)) + "\n")
	for i, part := range parts {
		fmt.Fprintf(b, "| %s |", part.name)
		for _, who := range c.contestants {
			fmt.Fprintf(b, " %s |", partCell(who.rounds, i))
		}
		b.WriteString("\n")
	}
}

// partCell shows one part in all rounds; a dash if it was in none.
func partCell(rounds []round, part int) string {
	values := make([]float64, len(rounds))
	var sum float64
	for i, r := range rounds {
		values[i] = r.parts[part]
		sum += values[i]
	}
	if sum == 0 {
		return "–"
	}
	return page.Spread("%.1f", values)
}

// readMetrics reads a program's metrics.
func readMetrics(text string, err error) (harness.Metrics, error) {
	if err != nil {
		return nil, err
	}
	return harness.ParseMetrics(text)
}

// resting is how long the processes are watched doing nothing.
const resting = 3 * time.Second

// usage is what processes have taken since they began.
type usage struct {
	at                            time.Time
	controller, kcp               time.Duration // of processors
	controllerMetrics, kcpMetrics harness.Metrics
}

// idle is the processor time that processes take doing nothing, as a share of time.
type idle struct {
	controller, kcp float64
}

// rest finds out what each side's controller, and kcp, take doing nothing.
func (s *stage) rest(ctx context.Context) error {
	var before []usage
	for _, side := range s.sides() {
		now, err := s.usage(ctx, side)
		if err != nil {
			return err
		}
		before = append(before, now)
	}
	select {
	case <-time.After(resting):
	case <-ctx.Done():
		return ctx.Err()
	}
	for i, side := range s.sides() {
		now, err := s.usage(ctx, side)
		if err != nil {
			return err
		}
		passed := float64(now.at.Sub(before[i].at))
		side.resting = idle{
			controller: float64(now.controller-before[i].controller) / passed,
			kcp:        float64(now.kcp-before[i].kcp) / passed,
		}
	}
	return nil
}

// usage reads what kcp and a side's controller have taken.
func (s *stage) usage(ctx context.Context, side *side) (usage, error) {
	now := usage{}
	var err error
	if side.controller != nil {
		if now.controllerMetrics, err = readMetrics(side.controller.Metrics(ctx)); err != nil {
			return usage{}, err
		}
		now.controller = cpuTime(now.controllerMetrics)
	}
	if now.kcpMetrics, err = readMetrics(s.Metrics(ctx)); err != nil {
		return usage{}, err
	}
	now.kcp = cpuTime(now.kcpMetrics)
	now.at = time.Now()
	return now, nil
}

func cpuTime(metrics harness.Metrics) time.Duration {
	return time.Duration(metrics.Sum("process_cpu_seconds_total") * float64(time.Second))
}
