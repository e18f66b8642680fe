package ledger

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kcp-ipam/ipam/allocator"
)

const (
	rebindBeside = 32 // callers beside those who bind a bound claim again
	rebinders    = 2
	rivalCallers = 8 // of each of two writers
	slower       = 10 * time.Millisecond
)

// rivals are callers and writers that could get in the way of others.
func rivals(ctx context.Context, opts *options, out io.Writer) (err error) {
	s, err := newStage(ctx, families[0])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	far, err := s.farther(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, far.Close()) }()
	again := s.request("pool")
	if _, err := s.Bind(ctx, again); err != nil {
		return err
	}
	bind := func() error { return s.bind(ctx, "pool") }
	rebound, err := beside(opts, rival{rebindBeside, bind}, rival{rebinders, func() error {
		_, err := s.Bind(ctx, again)
		return err
	}})
	if err != nil {
		return err
	}
	farther, err := beside(opts, rival{rivalCallers, func() error {
		_, err := far.Bind(ctx, s.request("pool"))
		return err
	}}, rival{rivalCallers, bind})
	if err != nil {
		return err
	}
	t := newTable("who binds", "alone, blocks/s", "beside", "blocks/s", "÷ alone", "the rivals/s")
	t.row(fmt.Sprintf("%d callers", rebindBeside), rebound.alone.write("%.0f"), fmt.Sprintf("%d callers who bind one bound claim again and again", rebinders),
		rebound.beside.write("%.0f"), rebound.beside.over(rebound.alone).write("%.2f"), rebound.rival.write("%.0f"))
	t.row(fmt.Sprintf("a writer whose transactions take %s longer, %d callers", slower, rivalCallers), farther.alone.write("%.0f"),
		fmt.Sprintf("another writer of the space, %d callers", rivalCallers),
		farther.beside.write("%.0f"), farther.beside.over(farther.alone).write("%.2f"), farther.rival.write("%.0f"))
	fmt.Fprintf(out, "### Rivals\n\n%s\nAll of one pool. A writer is an allocator, as each replica is one.\n\n", t)
	return nil
}

// rival is some callers who do the same as fast as they can.
type rival struct {
	callers int
	ask     func() error
}

// besides is how often a second somebody asked, alone and beside a rival, and how often
// the rival did.
type besides struct{ alone, beside, rival figures }

func beside(opts *options, some, other rival) (b besides, err error) {
	for range opts.rounds {
		alone, err := during(opts.round(), some.callers, some.ask)
		if err != nil {
			return b, err
		}
		rates := make(chan float64, 1)
		failed := make(chan error, 1)
		go func() {
			rate, err := during(opts.round(), other.callers, other.ask)
			rates <- rate
			failed <- err
		}()
		beside, err := during(opts.round(), some.callers, some.ask)
		b.alone, b.beside, b.rival = append(b.alone, alone), append(b.beside, beside), append(b.rival, <-rates)
		if err := errors.Join(err, <-failed); err != nil {
			return b, err
		}
	}
	return b, nil
}

// farther opens a second allocator on the stage's ledger, to which etcd is farther.
func (s *stage) farther(ctx context.Context) (*allocator.Allocator, error) {
	client := clientv3.NewCtxClient(ctx)
	client.KV, client.Watcher, client.Lease, client.Maintenance = farKV{s.client.KV}, s.client.Watcher, s.client.Lease, s.client.Maintenance
	return allocator.Open(ctx, client, allocator.Options{MaxTxnOps: maxTxnOps})
}

// farKV takes its time before each transaction.
type farKV struct{ clientv3.KV }

func (k farKV) Txn(ctx context.Context) clientv3.Txn { return farTxn{k.KV.Txn(ctx)} }

type farTxn struct{ clientv3.Txn }

func (t farTxn) If(cs ...clientv3.Cmp) clientv3.Txn   { return farTxn{t.Txn.If(cs...)} }
func (t farTxn) Then(ops ...clientv3.Op) clientv3.Txn { return farTxn{t.Txn.Then(ops...)} }
func (t farTxn) Else(ops ...clientv3.Op) clientv3.Txn { return farTxn{t.Txn.Else(ops...)} }

func (t farTxn) Commit() (*clientv3.TxnResponse, error) {
	<-time.After(slower)
	return t.Txn.Commit()
}
