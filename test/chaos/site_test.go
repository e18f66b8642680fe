package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kcp-ipam/ipam/test/chaos/etcd"
	"github.com/kcp-ipam/ipam/test/framework/wire"
)

const (
	members    = 3
	allocators = 3
	// patience bounds the wait for each fact that has to come true after all faults have ended.
	patience = time.Minute
)

// site is a cluster of etcd, the allocators on it, and the history that watches both.
type site struct {
	t       *testing.T
	dir     string
	log     *os.File
	cluster *etcd.Cluster
	peers   []*wire.Link // to the members, from the others
	hosts   []*host
	client  *clientv3.Client // past all links
	history *history
	traffic *traffic
	struck  map[string]int // faults, by name
}

// newSite starts everything. Its directory stays if the test fails.
func newSite(t *testing.T, seed uint64) *site {
	t.Helper()
	dir, err := os.MkdirTemp("", fmt.Sprintf("chaos-seed-%d-", seed)) //nolint:usetesting // It stays if the test fails.
	if err != nil {
		t.Fatalf("os.MkdirTemp: %v", err)
	}
	s := &site{t: t, dir: dir, struck: map[string]int{}}
	t.Cleanup(func() {
		if !t.Failed() {
			_ = os.RemoveAll(dir)
		}
	})
	s.check(s.open("schedule.log", &s.log))
	s.startCluster()
	s.traffic = &traffic{seed: seed, started: time.Now()}
	s.history = newHistory(s.traffic.now)
	s.startHistory()
	for i := range allocators {
		s.startHost(i)
	}
	s.traffic.hosts = s.hosts
	return s
}

func (s *site) open(name string, file **os.File) (err error) {
	*file, err = os.Create(filepath.Join(s.dir, name))
	if err == nil {
		s.t.Cleanup(func() { _ = (*file).Close() })
	}
	return err
}

// check ends the test if a helper fails that is not under test.
func (s *site) check(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// note writes a line of the schedule's log.
func (s *site) note(format string, args ...any) {
	fmt.Fprintf(s.log, "%8.3f "+format+"\n", append([]any{float64(s.traffic.now()) / 1e9}, args...)...)
}

func (s *site) startCluster() {
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	var err error
	s.cluster, err = etcd.New(ctx, etcd.Options{Dir: s.dir, Members: members, Peer: s.peer})
	s.t.Cleanup(func() { _ = s.cluster.Close() })
	s.check(err)
	s.client, err = etcd.Dial(s.cluster.Addrs()...)
	s.check(err)
	s.t.Cleanup(func() { _ = s.client.Close() })
}

// peer puts a link in front of a member.
func (s *site) peer(_ int, listens string) (string, error) {
	l, err := s.link(listens)
	s.peers = append(s.peers, l)
	return l.Addr(), err
}

func (s *site) link(to string) (*wire.Link, error) {
	l, err := wire.New(to)
	if err == nil {
		s.t.Cleanup(func() { _ = l.Close() })
	}
	return l, err
}

func (s *site) startHistory() {
	ctx, cancel := context.WithCancel(context.Background())
	go s.history.follow(ctx, s.client)
	s.t.Cleanup(func() {
		cancel()
		<-s.history.done
	})
}

func (s *site) startHost(i int) {
	var links []*wire.Link
	for _, m := range s.cluster.Members {
		l, err := s.link(m.Addr)
		s.check(err)
		links = append(links, l)
	}
	var log *os.File
	s.check(s.open(fmt.Sprintf("allocator%d.log", i), &log))
	h := newHost(links, log)
	s.hosts = append(s.hosts, h)
	s.check(h.start())
	s.t.Cleanup(func() { _ = h.kill() })
}

// run lets traffic and faults meet for a while, and then ends all faults.
func (s *site) run(seed uint64, duration time.Duration) {
	for _, w := range windows {
		if o := s.traffic.do(s.t.Context(), 0, request{Do: "register", Pool: w.ID, Timeout: patience}); o != (outcome{Prefix: w.CIDR}) {
			s.t.Fatalf("register %s: %+v", w.ID, o)
		}
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), duration)
	defer cancel()
	quiet := make(chan struct{})
	go func() {
		defer close(quiet)
		s.traffic.run(ctx)
	}()
	err := s.disturb(ctx, rand.New(rand.NewPCG(seed, seed)))
	cancel()
	<-quiet
	s.check(err)
	ctx, cancel = context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	s.check(errors.Join(s.cluster.Ready(ctx), ctx.Err()))
}
