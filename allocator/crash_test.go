package allocator

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/embedetcd"
	"github.com/kcp-ipam/ipam/allocator/etcdtest"
	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// What a child does that is no op.
const crashOpen, crashHold = "open", "hold"

// crashEnv tells the child of TestCrash what to do: directory, op and point.
const crashEnv = "ALLOCATOR_CRASH"

// crashOps are the transactions of a ledger. Each can be asked for twice.
var crashOps = map[string]func(context.Context, *Allocator) error{
	"bind": func(ctx context.Context, a *Allocator) error {
		b, err := a.Bind(ctx, request("p", "new", 26))
		if err == nil && b.Prefix != prefix("10.0.0.64/26") {
			err = fmt.Errorf("got %s", b.Prefix)
		}
		return err
	},
	"release": func(ctx context.Context, a *Allocator) error { return a.Release(ctx, "c") },
	"retain": func(ctx context.Context, a *Allocator) error {
		_, _, err := a.Retained().Retain(ctx, "c", time.Time{})
		return err
	},
	"register": func(ctx context.Context, a *Allocator) error {
		_, err := a.Pools().Register(ctx, root("q", "10.2.0.0/24"))
		return err
	},
	"exclude": func(ctx context.Context, a *Allocator) error {
		return a.Pools().Exclude(ctx, "p", []netip.Prefix{prefix("10.0.0.192/26")})
	},
	"drain":  func(ctx context.Context, a *Allocator) error { return a.Pools().Drain(ctx, "p") },
	"retire": func(ctx context.Context, a *Allocator) error { return a.Pools().Retire(ctx, "empty") },
	"carve": func(ctx context.Context, a *Allocator) error {
		p, err := a.Pools().Carve(ctx, request("p", "new", 26), ledger.Pool{ID: "new", Cluster: "tenant", Name: "new"})
		if err == nil && p.CIDR != prefix("10.0.0.64/26") {
			err = fmt.Errorf("got %s", p.CIDR)
		}
		return err
	},
	"retire a child":                      func(ctx context.Context, a *Allocator) error { return a.Pools().Retire(ctx, "child") },
	"release the last of a draining pool": func(ctx context.Context, a *Allocator) error { return a.Release(ctx, "last") },
}

// crashPoints are where the process ends. Of those during the transaction nobody
// can say how far it came.
var crashPoints = map[string]struct {
	arm         func(*engine.Hooks)
	least, most int // how many transactions are in the ledger afterwards
}{
	"before": {arm: func(h *engine.Hooks) {
		h.BeforeCommit = func(ledger.SpaceID) error { os.Exit(crashed); return nil }
	}},
	"during, at once":        {arm: killIn(0), most: 1},
	"during, after 300 µs":   {arm: killIn(300 * time.Microsecond), most: 1},
	"during, after 1,500 µs": {arm: killIn(1500 * time.Microsecond), most: 1},
	"after": {least: 1, most: 1, arm: func(h *engine.Hooks) {
		h.AfterCommit = func(ledger.SpaceID) error { os.Exit(crashed); return nil }
	}},
}

// crashed is the exit code of a child that ended where it should.
const crashed = 42

// killIn kills the process some time after the transaction has begun, as the
// kernel would.
func killIn(d time.Duration) func(*engine.Hooks) {
	return func(h *engine.Hooks) {
		h.BeforeCommit = func(ledger.SpaceID) error {
			killSelf(d)
			return nil
		}
		h.AfterCommit = func(ledger.SpaceID) error { select {} }
	}
}

func killSelf(d time.Duration) {
	time.AfterFunc(d, func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) })
}

// The process ends before, during or after a transaction, and its etcd with it.
// What the ledger then holds is what it held before or all that was asked for,
// and asking again gives what a process that had not ended would have given.
func TestCrash(t *testing.T) {
	for name, op := range crashOps {
		t.Run(name, func(t *testing.T) {
			states := whole(t, op)
			for point, at := range crashPoints {
				t.Run(point, func(t *testing.T) {
					t.Parallel()
					dir := t.TempDir()
					prepare(t, dir).etcd.Stop()
					crash(t, dir, name, point)

					e := etcdtest.NewWith(t, embedetcd.Options{Dir: dir})
					found := slices.IndexFunc(states, func(state contents) bool { return maps.Equal(state, read(t, e.Client(), 0)) })
					if found < at.least || found > at.most {
						t.Errorf("the ledger is in state %d: %v", found, read(t, e.Client(), 0))
					}
					l := reopen(t, e)
					must.Do(t, op(t.Context(), l.Allocator))
					l.becomes(states[len(states)-1])
					l.sameAsLedger()
				})
			}
		})
	}
}

// TestCrash_Child is what the tests of crashes run in a process of its own.
func TestCrash_Child(t *testing.T) {
	told := strings.Split(os.Getenv(crashEnv), "\n")
	if len(told) != 3 {
		return
	}
	dir, op, point := told[0], told[1], told[2]
	server := must.Get(embedetcd.Start(t.Context(), embedetcd.Options{Dir: dir}))(t)
	if op == crashOpen {
		d, _ := time.ParseDuration(point)
		killSelf(d)
	}
	a := must.Get(Open(t.Context(), server.Client(), Options{MaxTxnOps: server.MaxTxnOps()}))(t)
	switch op {
	case crashOpen:
		select {}
	case crashHold:
		a.Waits().Add(request("p", "waiter", 26))
		os.Exit(crashed)
	}
	crashPoints[point].arm(&a.engine.Hooks)
	t.Fatalf("still there, after %v", crashOps[op](t.Context(), a))
}

// crash has a child end at a point of an op.
func crash(t *testing.T, dir, op, point string) {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestCrash_Child$")
	child.Env = append(os.Environ(), crashEnv+"="+strings.Join([]string{dir, op, point}, "\n"))
	out, err := child.CombinedOutput()
	killed := child.ProcessState.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
	if child.ProcessState.ExitCode() != crashed && !killed {
		t.Fatalf("the child did not end as it should: %v\n%s", err, out)
	}
}

// prepare makes a ledger in dir in which each op has something to do.
func prepare(t *testing.T, dir string) *fixture {
	t.Helper()
	l := reopen(t, etcdtest.NewWith(t, embedetcd.Options{Dir: dir}))
	l.pool("p", "10.0.0.0/24")
	l.pool("empty", "10.1.0.0/24")
	l.pool("draining", "10.3.0.0/24")
	l.bind(request("p", "c", 26))
	l.bind(request("draining", "last", 26))
	must.Get(l.Pools().Carve(t.Context(), request("p", "child", 25), ledger.Pool{ID: "child", Cluster: "tenant", Name: "child"}))(t)
	must.Do(t, l.Pools().Drain(t.Context(), "draining"))
	must.Do(t, l.Close())
	return l
}

func reopen(t *testing.T, e *etcdtest.Etcd) *fixture {
	t.Helper()
	l := &fixture{t: t, etcd: e}
	l.Allocator = l.open()
	return l
}

// contents are the keys of a ledger with their values.
type contents map[string]string

// whole are the states that a ledger goes through in an op, if nothing happens:
// the first is how it was before.
func whole(t *testing.T, op func(context.Context, *Allocator) error) []contents {
	t.Helper()
	l := reopen(t, prepare(t, t.TempDir()).etcd)
	before := l.engine.Watched.Get()
	must.Do(t, op(t.Context(), l.Allocator))
	for _, id := range l.drainedPools() {
		l.waitFor(t, id, func(s *engine.Worker) bool { return s.Gone })
	}
	l.catchUp(t)
	states := []contents{read(t, l.etcd.Client(), before)}
	for revision := before + 1; revision <= l.engine.Watched.Get(); revision++ {
		if state := read(t, l.etcd.Client(), revision); !maps.Equal(state, states[len(states)-1]) {
			states = append(states, state)
		}
	}
	return states
}

// drainedPools are the pools that are draining and empty: they are about to go.
func (l *fixture) drainedPools() []ledger.PoolID {
	var drained []ledger.PoolID
	for p := range l.Pools().All() {
		if c, ok := l.Pools().Capacity(p.ID); ok && p.State == ledger.PoolDraining && c.Blocks == 0 {
			drained = append(drained, p.ID)
		}
	}
	return drained
}

// becomes waits until the ledger is in a state, for what is done by itself.
func (l *fixture) becomes(want contents) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), 10*time.Second)
	defer cancel()
	var got contents
	for got = read(l.t, l.etcd.Client(), 0); !maps.Equal(got, want) && ctx.Err() == nil; {
		got = read(l.t, l.etcd.Client(), 0)
	}
	if !maps.Equal(got, want) {
		l.t.Errorf("the ledger holds %v\nwant %v", got, want)
	}
}

// volatile is what differs from one ledger to the next: times, counts, and the names of transactions.
var volatile = regexp.MustCompile(`"at":"[^"]*"|"n":\d+|,"by":"[^"]*"`)

// read reads a ledger as of a revision; 0 is now.
func read(t *testing.T, client *clientv3.Client, revision int64) contents {
	t.Helper()
	resp := must.Get(client.Get(t.Context(), store.DefaultPrefix+"/", clientv3.WithPrefix(), clientv3.WithRev(revision)))(t)
	all := contents{}
	for _, kv := range resp.Kvs {
		all[strings.TrimPrefix(string(kv.Key), store.DefaultPrefix)] = volatile.ReplaceAllString(string(kv.Value), "")
	}
	delete(all, "/ledger")
	delete(all, "/test") // of catchUp
	return all
}

// The process ends while it makes a ledger: what is there is empty, and opens.
func TestCrash_FirstOpen(t *testing.T) {
	for _, d := range []time.Duration{0, 300 * time.Microsecond, 1500 * time.Microsecond} {
		dir := t.TempDir()
		crash(t, dir, crashOpen, d.String())
		l := reopen(t, etcdtest.NewWith(t, embedetcd.Options{Dir: dir}))
		if got := read(t, l.etcd.Client(), 0); len(got) > 0 {
			t.Error("a new ledger holds", got)
		}
		l.pool("p", "10.0.0.0/24")
		l.sameAsLedger()
	}
}

// What is held for a claim that waits is gone with the process, and nothing of
// it is in the ledger.
func TestCrash_Hold(t *testing.T) {
	dir := t.TempDir()
	prepare(t, dir).etcd.Stop()
	crash(t, dir, crashHold, "")
	l := reopen(t, etcdtest.NewWith(t, embedetcd.Options{Dir: dir}))
	l.sameAsLedger()
	l.gets(request("p", "other", 26), "10.0.0.64/26")
}
