package ledger

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"sync/atomic"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// many is the number of pools, and of callers.
const many = 64

// pools measures as many callers as there are pools, each at another pool. It compares them with the same callers at
// a single pool.
func pools(ctx context.Context, opts *options, out io.Writer) (err error) {
	s, err := newStage(ctx, families[0])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	ids := make([]ledger.PoolID, many)
	for i := range ids {
		ids[i] = ledger.PoolID(fmt.Sprint("pool-", i))
		window := netip.PrefixFrom(netip.AddrFrom4([4]byte{20 + byte(i)}), 8)
		if err := s.register(ctx, ids[i], window); err != nil {
			return err
		}
	}
	var turn atomic.Uint64
	bindIn := func(pool func() ledger.PoolID) func() error {
		return func() error {
			wanted := s.request()
			wanted.Pool = pool()
			_, err := s.Bind(ctx, wanted)
			return err
		}
	}
	one := bindIn(func() ledger.PoolID { return ids[0] })
	all := bindIn(func() ledger.PoolID { return ids[turn.Add(1)%many] })
	var together, apart figures
	for range opts.rounds {
		for _, of := range []struct {
			rates *figures
			bind  func() error
		}{{&together, one}, {&apart, all}} {
			rate, err := during(opts.round(), many, of.bind)
			if err != nil {
				return err
			}
			*of.rates = append(*of.rates, rate)
		}
	}
	t := newTable("callers", "one pool, blocks/s", "64 pools, blocks/s", "64 pools ÷ one")
	t.row(count(many), together.write("%.0f"), apart.write("%.0f"), apart.over(together).write("%.2f"))
	fmt.Fprintf(out, "### Many pools\n\n%s\n", t)
	return nil
}
