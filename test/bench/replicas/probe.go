package replicas

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/bench/tenant"
	"github.com/kcp-ipam/ipam/test/framework/retry"
	"github.com/kcp-ipam/ipam/test/gen"
)

const (
	// enough is how many answers, and how many records, each client has to see before the leader is lost, and again
	// after.
	enough = 3
	// pace is the pause of a client between two claims.
	pace = 100 * time.Millisecond
)

// probe is a client that makes claims, even if its last claim was not answered. It notes when answers and records
// come.
type probe struct {
	tenant           *tenant.Tenant
	answers, records series
	stop             chan struct{} // closed when it is to end
}

// run makes claims until the probe is stopped.
func (p *probe) run(ctx context.Context) error {
	watched, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { p.watch(watched) })
	defer watching.Wait()
	defer stop()
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	for {
		claim := gen.Claim(tenant.NewName(), wanted()...)
		if err := p.tenant.Create(ctx, claim); err != nil {
			return fmt.Errorf("create claim %s of %s: %w", claim.Name, p.tenant.Path, err)
		}
		if tenant.Bound(claim) {
			p.answers.note()
		}
		select {
		case <-p.stop:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}

// watch notes when records come, until ctx ends. A server that is too busy may break a watch off. The next watch begins with
// the records that are there, as the first one does: each record counts once.
func (p *probe) watch(ctx context.Context) {
	seen := sets.New[types.UID]()
	for ; ctx.Err() == nil; retry.Pause(ctx, pace) {
		events, err := p.tenant.Watch(ctx, &ipamv1alpha1.IPAllocationList{})
		if err != nil {
			continue
		}
		for event := range events.ResultChan() {
			record, ok := event.Object.(*ipamv1alpha1.IPAllocation)
			if ok && !seen.Has(record.UID) {
				seen.Insert(record.UID)
				p.records.note()
			}
		}
	}
}

// series holds the times at which answers or records came. It is safe for concurrent use.
type series struct {
	mu    sync.Mutex
	times []time.Time
}

func (s *series) note() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.times = append(s.times, time.Now())
}

// after returns how many came after a moment, and the longest pause since then, in seconds.
func (s *series) after(moment time.Time) (count int, longest float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := moment
	for _, at := range s.times {
		if at.After(moment) {
			count, longest, last = count+1, max(longest, at.Sub(last).Seconds()), at
		}
	}
	return count, longest
}

// warm waits until every probe has seen enough answers and records after a moment.
func warm(ctx context.Context, probes []*probe, moment time.Time) error {
	return retry.Do(ctx, patience, "wait for answers and records", func(context.Context) error {
		for _, p := range probes {
			answers, _ := p.answers.after(moment)
			records, _ := p.records.after(moment)
			if answers < enough || records < enough {
				return fmt.Errorf("%s has seen %d answers and %d records, want %d", p.tenant.Path, answers, records, enough)
			}
		}
		return nil
	})
}
