package simetcd

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"

	"github.com/kcp-ipam/ipam/allocator/embedetcd"
	"github.com/kcp-ipam/ipam/allocator/etcdtest"
	"github.com/kcp-ipam/ipam/test/must"
)

// newTwins starts both servers, empty.
func newTwins(t *testing.T, seed uint64, simulated *Etcd, real embedetcd.Options) *twins {
	real.MaxTxnOps = maxTxnOps
	return &twins{
		t: t, rand: rand.New(rand.NewPCG(seed, 0)), rev: simulated.Revision(),
		clients: [2]*clientv3.Client{simulated.calm(t), etcdtest.NewWith(t, real).Client()},
	}
}

// key returns one of a few keys.
func (w *twins) key() string {
	return []string{"a", "a/", "a/1", "a/1/x", "a/2", "b", "b/1", "c"}[w.rand.IntN(8)]
}

// revision returns a revision near a past event. It may be compacted, or lie in the future.
func (w *twins) revision() int64 {
	switch w.rand.IntN(8) {
	case 0:
		return w.rev + w.rand.Int64N(3)
	case 1:
		return max(1, w.compacted-1+w.rand.Int64N(3))
	case 2, 3, 4:
		return max(1, w.rev-w.rand.Int64N(20))
	}
	return 0
}

// within returns options for a key, a prefix, or a range.
func (w *twins) within() []clientv3.OpOption {
	switch w.rand.IntN(5) {
	case 0:
		return []clientv3.OpOption{clientv3.WithPrefix()}
	case 1:
		return []clientv3.OpOption{clientv3.WithFromKey()}
	case 2:
		return []clientv3.OpOption{clientv3.WithRange(w.key())}
	}
	return nil
}

// get returns a range with options.
func (w *twins) get() (string, clientv3.Op) {
	opts, rev, limit := w.within(), w.revision(), w.rand.Int64N(4)
	opts = append(opts, clientv3.WithRev(rev), clientv3.WithLimit(limit))
	extra := w.rand.IntN(5)
	switch extra {
	case 0:
		opts = append(opts, clientv3.WithKeysOnly())
	case 1:
		opts = append(opts, clientv3.WithCountOnly())
	case 2:
		opts = append(opts, clientv3.WithSerializable())
	}
	op := clientv3.OpGet(w.key(), opts...)
	return fmt.Sprintf("get %q to %q at %d, limit %d, %d", op.KeyBytes(), op.RangeBytes(), rev, limit, extra), op
}

func (w *twins) put() (string, clientv3.Op) {
	key, value := w.key(), fmt.Sprint(w.rand.IntN(5))
	return fmt.Sprintf("put %q=%q", key, value), clientv3.OpPut(key, value)
}

func (w *twins) remove() (string, clientv3.Op) {
	op := clientv3.OpDelete(w.key(), w.within()...)
	return fmt.Sprintf("delete %q to %q", op.KeyBytes(), op.RangeBytes()), op
}

// compare returns a comparison that often holds.
func (w *twins) compare() (string, clientv3.Cmp) {
	key, result := w.key(), []string{"=", "=", "!=", "<", ">"}[w.rand.IntN(5)]
	n := w.rand.Int64N(w.rev + 1)
	switch w.rand.IntN(5) {
	case 0:
		return fmt.Sprintf("version %q %s %d", key, result, n%4), clientv3.Compare(clientv3.Version(key), result, n%4)
	case 1:
		return fmt.Sprintf("created %q %s %d", key, result, n), clientv3.Compare(clientv3.CreateRevision(key), result, n)
	case 2:
		return fmt.Sprintf("changed %q %s %d", key, result, n), clientv3.Compare(clientv3.ModRevision(key), result, n)
	case 3:
		return fmt.Sprintf("absent %q", key), clientv3.Compare(clientv3.ModRevision(key), "=", 0)
	}
	value := fmt.Sprint(n % 5)
	return fmt.Sprintf("value %q %s %q", key, result, value), clientv3.Compare(clientv3.Value(key), result, value)
}

// branch returns operations of a transaction. Some write a key twice, some are too many.
func (w *twins) branch() (what string, ops []clientv3.Op) {
	n := w.rand.IntN(4)
	if w.rand.IntN(40) == 0 {
		n = maxTxnOps + w.rand.IntN(2)
	}
	for range n {
		one, op := []func() (string, clientv3.Op){w.get, w.put, w.put, w.remove}[w.rand.IntN(4)]()
		if n >= maxTxnOps {
			one, op = w.get()
		}
		if op.IsDelete() && string(op.RangeBytes()) == "\x00" {
			continue // a put of the same key beside it is an error, which etcd overlooks
		}
		what, ops = what+one+"; ", append(ops, op)
	}
	return what, ops
}

func (w *twins) txn() (string, clientv3.Op) {
	var ifs []clientv3.Cmp
	what := "if "
	for range w.rand.IntN(3) {
		one, c := w.compare()
		what, ifs = what+one+", ", append(ifs, c)
	}
	then, success := w.branch()
	otherwise, failure := w.branch()
	return what + "then " + then + "else " + otherwise, clientv3.OpTxn(ifs, success, failure)
}

// step does one thing at random.
func (w *twins) step() {
	w.t.Helper()
	n := w.rand.IntN(100)
	switch {
	case n < 3:
		w.settle() // else one server compacts an event that its watch has not brought yet
		rev := w.revision()
		w.same(fmt.Sprintf("compact %d", rev), func(c *clientv3.Client) string {
			resp, err := c.Compact(w.t.Context(), rev, clientv3.WithCompactPhysical())
			if err != nil {
				return err.Error()
			}
			w.compacted = rev
			return header(resp.Header.Revision).String()
		})
		w.watch(w.t.Context(), "watch all from the compaction", "\x00", clientv3.WithFromKey(),
			clientv3.WithRev(max(1, w.compacted)), clientv3.WithPrevKV())
	case n < 6:
		key, rev, opts := w.key(), w.revision(), w.within()
		opts = append(opts, clientv3.WithRev(rev))
		extra := w.rand.IntN(3)
		switch extra {
		case 0:
			opts = append(opts, clientv3.WithPrevKV(), clientv3.WithProgressNotify())
		case 1:
			opts = append(opts, clientv3.WithCreatedNotify())
		}
		op := clientv3.OpGet(key, opts...)
		end := string(op.RangeBytes())
		if end != "" && end != "\x00" && end <= key {
			return
		}
		w.watch(w.t.Context(), fmt.Sprintf("watch %q to %q from %d, %d", key, end, rev, extra), key, opts...)
	default:
		w.do([]func() (string, clientv3.Op){w.get, w.get, w.put, w.remove, w.txn, w.txn, w.txn}[w.rand.IntN(7)]())
	}
}

func TestEtcd_AnswersAsARealOne(t *testing.T) {
	t.Parallel()
	w := newTwins(t, 1, New(), embedetcd.Options{})
	for range 1500 {
		w.step()
	}
	w.settle()
}

func TestEtcd_RestoresAsARealOne(t *testing.T) {
	t.Parallel()
	for _, bump := range []int64{0, 1000} {
		t.Run(fmt.Sprint(bump), func(t *testing.T) {
			t.Parallel()
			simulated := New()
			w := newTwins(t, 2, simulated, embedetcd.Options{})
			for range 300 {
				w.step()
			}
			w.settle()
			file, dir := filepath.Join(t.TempDir(), "snapshot"), filepath.Join(t.TempDir(), "restored")
			from := must.Get(w.clients[1].SnapshotWithVersion(t.Context()))(t)
			out := must.Get(os.Create(file))(t)
			must.Fail(out.ReadFrom(from.Snapshot))(t, context.Canceled) // so an etcd in the process ends; restoring checks a sum
			must.Do(t, out.Close())
			backup := simulated.Snapshot()
			for range 100 {
				w.step()
			}
			must.Do(t, snapshot.NewV3(zap.NewNop()).Restore(snapshot.RestoreConfig{
				SnapshotPath: file, OutputDataDir: dir, Name: "ipam", PeerURLs: []string{"http://127.0.0.1:0"},
				InitialCluster: "ipam=http://127.0.0.1:0", InitialClusterToken: "etcd-cluster",
				RevisionBump: uint64(bump), MarkCompacted: bump > 0,
			}))
			simulated.Restore(backup, bump)
			restored := newTwins(t, 3, simulated, embedetcd.Options{Dir: dir})
			restored.compacted = w.compacted
			for range 300 {
				restored.step()
			}
			restored.settle()
		})
	}
}
