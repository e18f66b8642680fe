package ledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/embedetcd"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

const maxTxnOps = 2048

// stage is an etcd, an allocator on it, and a first pool.
type stage struct {
	*allocator.Allocator
	client   *clientv3.Client
	registry *prometheus.Registry
	claims   atomic.Uint64
	family   family
	close    func() error
}

// family is a pool to fill, and the length of the blocks to fill it with.
type family struct {
	name   string
	window netip.Prefix
	length int
}

var families = []family{
	{"hosts of a /8", netip.MustParsePrefix("10.0.0.0/8"), 32},
	{"/64s of a /32", netip.MustParsePrefix("2001:db8::/32"), 64},
}

// newStage starts an etcd in this process, as the controller does by default.
func newStage(ctx context.Context, f family) (*stage, error) {
	dir, err := os.MkdirTemp("", "ledger-bench-")
	if err != nil {
		return nil, err
	}
	quiet := slog.New(slog.DiscardHandler)
	server, err := embedetcd.Start(ctx, embedetcd.Options{Dir: dir, MaxTxnOps: maxTxnOps, Logger: quiet})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	s, err := newStageOn(ctx, server.Client(), f)
	if err != nil {
		return nil, errors.Join(err, server.Close(), os.RemoveAll(dir))
	}
	s.close = func() error { return errors.Join(s.Close(), server.Close(), os.RemoveAll(dir)) }
	return s, nil
}

// newStageOn makes a stage on an etcd that runs already.
func newStageOn(ctx context.Context, client *clientv3.Client, f family) (*stage, error) {
	s := &stage{client: client, family: f}
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	s.close = s.Close
	return s, s.register(ctx, "pool", f.window)
}

// open opens an allocator, which replaces the former one.
func (s *stage) open(ctx context.Context) (err error) {
	s.registry = prometheus.NewRegistry()
	s.Allocator, err = allocator.Open(ctx, s.client, allocator.Options{MaxTxnOps: maxTxnOps, Registerer: s.registry})
	return err
}

func (s *stage) register(ctx context.Context, id ledger.PoolID, window netip.Prefix) error {
	_, err := s.Pools().Register(ctx, ledger.Pool{ID: id, Cluster: "platform", Name: string(id), CIDR: window})
	return err
}

// request returns a request of a new claim, whose ID looks like a UID of Kubernetes.
func (s *stage) request() ledger.Request {
	uid := uid(s.claims.Add(1))
	return ledger.Request{Pool: "pool", Length: s.family.length, Class: "standard", Holder: ledger.Holder{
		Claim: ledger.ClaimID(uid), Cluster: "2x7tq0fqzmdbp3kl", Namespace: "default", Name: uid[:8],
	}}
}

// uid maps numbers to UIDs that are spread as if they were random.
func uid(n uint64) string {
	n = (n ^ n>>31) * 0x9E3779B97F4A7C15
	return fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x", n>>32, n>>16&0xffff, n>>4&0xfff, n&0xfff, n*0xC2B2AE3D27D4EB4F>>16)
}

func (s *stage) bind(ctx context.Context) error {
	_, err := s.Bind(ctx, s.request())
	return err
}

// fill binds blocks until the pool holds that many.
func (s *stage) fill(ctx context.Context, blocks int) error {
	held, _ := s.Pools().Capacity("pool")
	_, err := spread(blocks-held.Blocks, maxTxnOps, func() error { return s.bind(ctx) })
	return err
}

// groups counts the transactions that the allocator has made.
func (s *stage) groups() (float64, error) {
	families, err := s.registry.Gather()
	for _, f := range families {
		if f.GetName() == "ipam_ledger_transaction_seconds" {
			return float64(f.GetMetric()[0].GetHistogram().GetSampleCount()), err
		}
	}
	return 0, errors.Join(err, errors.New("the allocator does not count its transactions"))
}

// spread runs f n times in all, from a number of callers, and returns the runs per second.
func spread(n, callers int, f func() error) (rate float64, err error) {
	var left atomic.Int64
	left.Store(int64(n))
	return measure(callers, func() (bool, error) {
		if left.Add(-1) < 0 {
			return false, nil
		}
		return true, f()
	})
}

// during runs f for a time, from a number of callers, and returns the runs per second.
func during(d time.Duration, callers int, f func() error) (rate float64, err error) {
	end := time.Now().Add(d)
	return measure(callers, func() (bool, error) {
		return time.Now().Before(end), f()
	})
}

// measure lets callers take steps until step returns false, and returns the steps per second.
func measure(callers int, step func() (more bool, err error)) (rate float64, err error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	var steps atomic.Int64
	began := time.Now()
	for range callers {
		wg.Go(func() {
			for {
				more, failed := step()
				if failed != nil {
					mu.Lock()
					defer mu.Unlock()
					err = errors.Join(err, failed)
					return
				}
				if !more {
					return
				}
				steps.Add(1)
			}
		})
	}
	wg.Wait()
	return float64(steps.Load()) / time.Since(began).Seconds(), err
}
