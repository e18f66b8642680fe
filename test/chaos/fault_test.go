package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kcp-ipam/ipam/test/framework/retry"
	"github.com/kcp-ipam/ipam/test/framework/wire"
)

// fault is a disturbance that begins, lasts a while, and is ended.
type fault struct {
	name string
	// begin makes the fault happen. It draws the victim, and returns its name and a function that ends the fault.
	begin func(*site, *rand.Rand) (to string, end func() error, err error)
}

// faults are all faults. Their names are those of the table in README.md.
var faults = []fault{
	{"kill member", func(s *site, random *rand.Rand) (string, func() error, error) {
		m := s.cluster.Members[s.member(random)]
		return m.Name, func() error { _, err := m.Start(); return err }, m.Kill()
	}},
	{"pause member", func(s *site, random *rand.Rand) (string, func() error, error) {
		m := s.cluster.Members[s.member(random)]
		return m.Name, m.Resume, m.Pause()
	}},
	{"change the office", func(s *site, random *rand.Rand) (string, func() error, error) {
		return allocatorName(s.succeed(random)), func() error { return nil }, nil
	}},
	{"kill allocator", func(s *site, random *rand.Rand) (string, func() error, error) {
		i := s.succeed(random)
		return allocatorName(i), s.hosts[i].start, s.hosts[i].kill()
	}},
	{"pause allocator", func(s *site, random *rand.Rand) (string, func() error, error) {
		i := s.succeed(random)
		return allocatorName(i), s.hosts[i].process.Resume, s.hosts[i].process.Pause()
	}},
	{"drop a connection", func(s *site, random *rand.Rand) (string, func() error, error) {
		i, j := s.leader(), s.member(random)
		return fmt.Sprintf("%s to m%d", allocatorName(i), j), cut(s.hosts[i].links[j]), nil
	}},
	{"drop connections", func(s *site, random *rand.Rand) (string, func() error, error) {
		i := s.leader()
		if random.IntN(2) == 0 {
			i = s.succeed(random)
		}
		return allocatorName(i), cut(s.hosts[i].links...), nil
	}},
	{"blink", func(s *site, _ *rand.Rand) (string, func() error, error) {
		var all []*wire.Link
		for _, h := range s.hosts {
			all = append(all, h.links...)
		}
		return "all allocators", func() error { return nil }, cut(all...)()
	}},
	{"delay connections", func(s *site, random *rand.Rand) (string, func() error, error) {
		i, d := s.leader(), time.Duration(20+random.IntN(200))*time.Millisecond
		return fmt.Sprint(allocatorName(i), " by ", d), slow(d, s.hosts[i].links...), nil
	}},
	{"drop peers", func(s *site, random *rand.Rand) (string, func() error, error) {
		j := s.member(random)
		return fmt.Sprint("m", j), cut(s.peers[j]), nil
	}},
	{"delay peers", func(s *site, random *rand.Rand) (string, func() error, error) {
		j, d := s.member(random), time.Duration(20+random.IntN(200))*time.Millisecond
		return fmt.Sprintf("m%d by %s", j, d), slow(d, s.peers[j]), nil
	}},
	{"compact", func(s *site, _ *rand.Rand) (string, func() error, error) {
		return "ledger", func() error { return nil }, s.compact()
	}},
	{"cut off and compact", func(s *site, _ *rand.Rand) (string, func() error, error) {
		i := s.leader()
		heal := cut(s.hosts[i].links...)
		return allocatorName(i), func() error { return errors.Join(s.compact(), heal()) }, nil
	}},
	{"pause, cut off and compact", func(s *site, random *rand.Rand) (string, func() error, error) {
		i := s.succeed(random)
		h := s.hosts[i]
		heal := cut(h.links...)
		return allocatorName(i), func() error { return errors.Join(s.compact(), heal(), h.process.Resume()) }, h.process.Pause()
	}},
	{"defragment", func(s *site, random *rand.Rand) (string, func() error, error) {
		m := s.cluster.Members[random.IntN(len(s.cluster.Members))]
		return m.Name, func() error { return nil }, s.ask(func(ctx context.Context) error {
			_, err := s.client.Defragment(ctx, m.Addr)
			return err
		})
	}},
}

// leader returns the allocator that callers ask now.
func (s *site) leader() int { return int(s.traffic.leads.Load()) }

// succeed lets the callers ask another allocator, which takes the office. It returns the former one, which has
// transactions under way.
func (s *site) succeed(random *rand.Rand) (former int) {
	former = s.leader()
	s.traffic.leads.Store(int32((former + 1 + random.IntN(len(s.hosts)-1)) % len(s.hosts)))
	return former
}

func allocatorName(i int) string { return fmt.Sprint("allocator ", i) }

// cut cuts links, and returns a function that restores them.
func cut(links ...*wire.Link) func() error {
	for _, l := range links {
		l.Cut(true)
	}
	return func() error {
		for _, l := range links {
			l.Cut(false)
		}
		return nil
	}
}

// slow slows links down, and returns a function that restores them.
func slow(d time.Duration, links ...*wire.Link) func() error {
	for _, l := range links {
		l.Slow(d)
	}
	return func() error {
		for _, l := range links {
			l.Slow(0)
		}
		return nil
	}
}

// member draws a member; every second time it is the leader.
func (s *site) member(random *rand.Rand) int {
	i, leads := random.IntN(len(s.cluster.Members)), random.IntN(2) == 0
	if !leads {
		return i
	}
	for j, m := range s.cluster.Members {
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		status, err := s.client.Status(ctx, m.Addr)
		cancel()
		if err == nil && status.Leader == status.Header.MemberId {
			return j
		}
	}
	return i
}

// compact compacts etcd up to the last revision that the history has.
func (s *site) compact() error {
	revision := s.history.revision()
	return s.ask(func(ctx context.Context) error {
		_, err := s.client.Compact(ctx, revision)
		return err
	})
}

// ask makes a request, which may fail while a member is away or is going.
func (s *site) ask(request func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := request(ctx)
	var known rpctypes.EtcdError
	away := errors.Is(err, context.DeadlineExceeded) || clientv3.IsConnCanceled(err) || status.Code(err) == codes.Unavailable
	if away || errors.As(rpctypes.Error(err), &known) {
		s.note("  (%v)", err)
		return nil
	}
	return err
}

// disturb lets faults happen, by ones and twos, until the context ends. Then it ends all faults.
func (s *site) disturb(ctx context.Context, random *rand.Rand) error {
	order := random.Perm(len(faults))
	for i := 0; ctx.Err() == nil; i++ {
		chosen := []fault{faults[order[i%len(order)]]}
		if other := faults[random.IntN(len(faults))]; random.IntN(3) == 0 && other.compatible(chosen[0]) {
			chosen = append(chosen, other)
		}
		if err := s.strike(ctx, random, chosen); err != nil {
			return err
		}
		retry.Pause(ctx, time.Duration(100+random.IntN(400))*time.Millisecond)
	}
	return nil
}

// compatible reports whether two faults may last at the same time. They may not if they could stop or start the same
// process twice.
func (f fault) compatible(other fault) bool {
	group := func(f fault) int {
		return slices.IndexFunc([][]string{
			{"kill member", "pause member", "defragment"},
			{"change the office", "kill allocator", "pause allocator", "pause, cut off and compact"},
			{"drop a connection", "drop connections", "cut off and compact", "delay connections", "blink"},
			{"drop peers", "delay peers"},
			{"compact"},
		}, func(names []string) bool { return slices.Contains(names, f.name) })
	}
	return group(f) != group(other)
}

// strike lets faults begin, last, and end.
func (s *site) strike(ctx context.Context, random *rand.Rand, chosen []fault) error {
	var errs []error
	var ends []func() error
	for _, f := range chosen {
		to, end, err := f.begin(s, random)
		s.note("%s: %s", f.name, to)
		s.struck[f.name]++
		errs, ends = append(errs, err), append(ends, end)
	}
	retry.Pause(ctx, time.Duration(50+random.IntN(1450))*time.Millisecond)
	for _, end := range ends {
		errs = append(errs, end())
	}
	s.note("made good")
	return errors.Join(errs...)
}
