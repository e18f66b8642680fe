package replicas

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/bench/tenant"
	"github.com/kcp-ipam/ipam/test/gen"
)

const (
	// enough is how many answers, and how many records, each client sees before the leader is
	// lost, and after.
	enough = 3
	// pace is the pause of a client between two claims.
	pace = 100 * time.Millisecond
)

// probe is a client that claims, whether its last claim was answered or not, and sees when
// answers and records come.
type probe struct {
	tenant           *tenant.Tenant
	answers, records *series
	stop             chan struct{} // closed when it is to end
}

func newProbe(t *tenant.Tenant) *probe {
	return &probe{tenant: t, answers: newSeries(), records: newSeries(), stop: make(chan struct{})}
}

// run claims, until it is to stop.
func (p *probe) run(ctx context.Context) error {
	events, err := p.tenant.Watch(ctx, &ipamv1alpha1.IPAllocationList{})
	if err != nil {
		return fmt.Errorf("watch the records of %s: %w", p.tenant.Path, err)
	}
	var watching sync.WaitGroup
	watching.Go(func() { p.follow(events) })
	defer watching.Wait()
	defer events.Stop()
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	for {
		claim := gen.Claim(tenant.NewName(), wanted()...)
		if err := p.tenant.Create(ctx, claim); err != nil {
			return fmt.Errorf("create claim %s of %s: %w", claim.Name, p.tenant.Path, err)
		}
		if tenant.Bound(claim) {
			p.answers.note(time.Now())
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

// follow notes when records come. Those that are there already come first.
func (p *probe) follow(events watch.Interface) {
	for event := range events.ResultChan() {
		if event.Type == watch.Added {
			p.records.note(time.Now())
		}
	}
}

// restart forgets what came before now.
func (p *probe) restart() {
	p.answers.restart()
	p.records.restart()
}

// recount has warm wait for as many as before once more.
func (p *probe) recount() {
	p.answers.recount()
	p.records.recount()
}

// warm is closed when enough answers and records have come.
func (p *probe) warm() <-chan struct{} {
	both := make(chan struct{})
	go func() {
		defer close(both)
		<-p.answers.reached()
		<-p.records.reached()
	}()
	return both
}

// series is when something came. It is safe for concurrent use.
type series struct {
	mu      sync.Mutex
	times   []time.Time
	missing int           // until enough have come
	full    chan struct{} // closed then
}

func newSeries() *series { return &series{missing: enough, full: make(chan struct{})} }

func (s *series) note(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.times = append(s.times, at)
	if s.missing--; s.missing == 0 {
		close(s.full)
	}
}

func (s *series) restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.times = []time.Time{time.Now()}
}

func (s *series) recount() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.missing, s.full = enough, make(chan struct{})
}

func (s *series) reached() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.full
}

// longest returns the longest pause, in seconds.
func (s *series) longest() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	var longest time.Duration
	for i := 1; i < len(s.times); i++ {
		longest = max(longest, s.times[i].Sub(s.times[i-1]))
	}
	return longest.Seconds()
}
