package ledger

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"

	goipam "github.com/metal-stack/go-ipam"

	"github.com/kcp-ipam/ipam/test/chaos/etcd"
)

const (
	peerHeld    = 2600
	peerCallers = 8
	peerWindow  = "10.0.0.0/16"
)

// peer measures go-ipam on the same etcd. That etcd is a process, because go-ipam needs an address.
func peer(ctx context.Context, opts *options, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "ledger-bench-")
	if err != nil {
		return err
	}
	cluster, err := etcd.New(ctx, etcd.Options{Dir: dir, MaxTxnOps: maxTxnOps, Fsync: true})
	defer func() { err = errors.Join(err, cluster.Close(), os.RemoveAll(dir)) }()
	if err != nil {
		return err
	}
	client, err := etcd.Dial(cluster.Addrs()...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	s, err := newStageOn(ctx, client, families[0])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	g, err := newGoIPAM(ctx, cluster.Addrs()[0])
	if err != nil {
		return err
	}
	ours, theirs, err := s.against(ctx, opts, g)
	if err != nil {
		return err
	}
	t := newTable("addresses held, callers", "addresses/s", "go-ipam v1.14.13 addresses/s", "rate ÷ go-ipam")
	t.row(fmt.Sprintf("%s held, %d callers", count(peerHeld), peerCallers), ours.write("%.0f"), theirs.write("%.0f"), ours.over(theirs).write("%.1f"))
	fmt.Fprintf(out, "### Beside go-ipam\n\n%s\nBoth on one etcd in a process of its own. go-ipam gives back after each round what it gave out in it, so that it stays at what it held.\n\n", t)
	return nil
}

// against measures the allocator and go-ipam, while each holds the same number of addresses.
func (s *stage) against(ctx context.Context, opts *options, g *goIPAM) (ours, theirs figures, err error) {
	if err := s.fill(ctx, peerHeld); err != nil {
		return nil, nil, err
	}
	if _, err := spread(peerHeld, peerCallers, func() error { return g.acquire(ctx) }); err != nil {
		return nil, nil, err
	}
	g.acquired = nil
	for range opts.rounds {
		own, err := during(opts.round(), peerCallers, func() error { return s.bind(ctx) })
		if err != nil {
			return nil, nil, err
		}
		other, err := during(opts.round(), peerCallers, func() error { return g.acquire(ctx) })
		if err != nil {
			return nil, nil, err
		}
		if err := g.releaseAll(ctx); err != nil {
			return nil, nil, err
		}
		ours, theirs = append(ours, own), append(theirs, other)
	}
	return ours, theirs, nil
}

// goIPAM is a prefix of go-ipam, and what was acquired from it.
type goIPAM struct {
	goipam.Ipamer
	mu       sync.Mutex
	acquired []string
}

func newGoIPAM(ctx context.Context, addr string) (*goIPAM, error) {
	ip, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	storage, err := goipam.NewEtcd(ctx, ip, port, nil, nil, true)
	if err != nil {
		return nil, err
	}
	g := &goIPAM{Ipamer: goipam.NewWithStorage(storage)}
	_, err = g.NewPrefix(ctx, peerWindow)
	return g, err
}

func (g *goIPAM) acquire(ctx context.Context) error {
	ip, err := g.AcquireIP(ctx, peerWindow)
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.acquired = append(g.acquired, ip.IP.String())
	return nil
}

func (g *goIPAM) releaseAll(ctx context.Context) error {
	for _, ip := range g.acquired {
		if err := g.ReleaseIPFromPrefix(ctx, peerWindow, ip); err != nil {
			return err
		}
	}
	g.acquired = nil
	return nil
}
