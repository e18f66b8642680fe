package sim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/sim/simetcd"
	"github.com/kcp-ipam/ipam/test/sim/simkcp"
)

// up starts a controller in each place where none runs. One that ends by itself is started again.
func (s *Simulation) up() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, running := range s.replicas {
		if running == nil {
			s.replicas[i] = s.launch(i)
		}
	}
}

// launch starts a controller. mu is held.
func (s *Simulation) launch(replica int) *process {
	n := len(s.started) + 1
	p := &process{replica: replica, elects: len(s.replicas) > 1, name: fmt.Sprintf("ipam-%d.test:9443", n), dial: s.dial}
	p.etcd = simetcd.NewLink(s.etcd,
		func(request any) simetcd.Fate { return s.pausedEtcd(p, s.etcdFate(request)) },
		func() time.Duration { return p.pause() + s.most(s.current().EtcdLag) })
	p.kcp = simkcp.NewTransport(s.world,
		func(method, plural string) simkcp.Fate { return s.pausedKCP(p, method, s.kcpFate(method, plural)) },
		func(string) time.Duration { return p.pause() + s.most(s.current().Lag) })
	p.start(s.logger(n))
	s.started = append(s.started, p)
	s.awake.CompareAndSwap(0, time.Now().UnixNano())
	go s.keepUp(p, n)
	return p
}

// keepUp starts a controller again that has ended by itself, as a supervisor does.
func (s *Simulation) keepUp(p *process, n int) {
	<-p.ended
	if !s.runs(p) {
		return
	}
	s.note("controller %d has ended: %v", n, p.err)
	if !p.elects && (errors.Is(p.err, ledger.ErrReplaced) || errors.Is(p.err, ledger.ErrDeposed)) {
		s.find("ENDED", "the only controller has ended: %v", p.err)
	}
	time.Sleep(p.pause() + time.Second)
	s.end(p, func(*process) {})
	s.up()
}

// running returns the controllers that run.
func (s *Simulation) running() (all []*process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.replicas {
		if p != nil {
			all = append(all, p)
		}
	}
	return all
}

// runs reports whether a controller is in its place.
func (s *Simulation) runs(p *process) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.replicas[p.replica] == p
}

// end takes a controller from its place, and ends it.
func (s *Simulation) end(p *process, by func(*process)) {
	s.mu.Lock()
	if s.replicas[p.replica] == p {
		s.replicas[p.replica] = nil
	}
	if !slices.ContainsFunc(s.replicas, func(p *process) bool { return p != nil }) {
		s.awake.Store(0)
	}
	s.mu.Unlock()
	by(p)
}

// down kills all controllers.
func (s *Simulation) down() {
	for _, p := range s.running() {
		s.end(p, (*process).kill)
	}
}

// finish ends the world and kills all controllers, and waits until they have ended.
func (s *Simulation) finish() {
	s.world.Close()
	s.down()
	for _, p := range s.started {
		<-p.ended
		p.web.CloseIdleConnections()
	}
	time.Sleep(time.Minute) // the timers of connections and watches end
}

// saw reports whether a controller has certainly seen a change by now. A controller that starts reads all objects.
// One whose watch has ended reads it within a minute.
func (s *Simulation) saw(change time.Time) bool {
	awake, takes := s.awake.Load(), settling
	if faults := s.profile.Faults; faults["break"] > 0 || faults["forget"] > 0 {
		takes = time.Minute
	}
	return awake != 0 && time.Since(change) > takes && time.Since(time.Unix(0, awake)) > takes
}

// replica returns a controller that leads, if the role is leader, else one that does not; nil: there is none.
func (s *Simulation) replica(role string) (found *process) {
	for _, p := range s.running() {
		if p.leads() == (role == "leader") {
			found = p
		}
	}
	return found
}

// Do implements simkcp.Door: a Service has all replicas behind it.
func (s *Simulation) Do(r *http.Request) (*http.Response, error) {
	running := s.running()
	if len(running) == 0 {
		return nil, errRefused
	}
	p := running[0]
	if len(running) > 1 {
		p = running[s.below(len(running))]
	}
	if err := wait(r.Context(), p.pause()); err != nil {
		return nil, err
	}
	return p.web.Do(r)
}

// dial connects a replica to another one.
func (s *Simulation) dial(ctx context.Context, _, address string) (net.Conn, error) {
	for _, p := range s.running() {
		if p.name != address {
			continue
		}
		if err := wait(ctx, p.pause()); err != nil {
			return nil, err
		}
		return p.door.dial(ctx)
	}
	return nil, errRefused
}

// wait waits for a duration, or fails when ctx ends.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pause returns how long the process still stands still.
func (p *process) pause() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(0, time.Until(p.still))
}

// pausedEtcd returns the fate of a request of a process that may stand still. A process cannot be stopped in a
// bubble, so its requests are held until the pause ends. Half of them are sent then although their client has given
// up: such a request stands for one that had last checked its deadline before the pause.
func (s *Simulation) pausedEtcd(p *process, f simetcd.Fate) simetcd.Fate {
	d := p.pause()
	switch {
	case d == 0:
		return f
	case s.chance(500):
		return simetcd.Fate{Mute: true, Hang: true, Late: d + s.most(time.Millisecond)}
	}
	f.Before += d
	return f
}

// pausedKCP does the same as pausedEtcd, for a request to kcp. Only a write may be sent after its client has given
// up.
func (s *Simulation) pausedKCP(p *process, method string, f simkcp.Fate) simkcp.Fate {
	d := p.pause()
	switch {
	case d == 0:
		return f
	case method != http.MethodGet && s.chance(500):
		return simkcp.Fate{Mute: true, Late: d + s.most(time.Millisecond)}
	}
	f.Before += d
	return f
}

// pause lets a replica stand still. A leader loses its lease in a long pause, and does not know that when it goes on.
func (p *player) pause(words []string) {
	d, err := time.ParseDuration(words[1])
	if err != nil {
		panic(usage(words))
	}
	still := p.replica(words[0])
	if still == nil {
		return
	}
	p.note("replica %d, the %s, stands still for %s", still.replica, words[0], d)
	still.mu.Lock()
	defer still.mu.Unlock()
	still.still = time.Now().Add(d)
}

// roll replaces all replicas, one after the other, as a rolling update does.
func (p *player) roll([]string) {
	for _, old := range p.running() {
		p.note("replica %d is replaced", old.replica)
		p.end(old, (*process).stop)
		p.up()
		time.Sleep(p.most(5 * time.Second))
	}
}
