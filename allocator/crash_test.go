package allocator

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kcp-ipam/ipam/allocator/embedetcd"
	"github.com/kcp-ipam/ipam/allocator/etcdtest"
)

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
	"release":  func(ctx context.Context, a *Allocator) error { return a.Release(ctx, "c") },
	"retain":   func(ctx context.Context, a *Allocator) error { _, _, err := a.Retain(ctx, "c"); return err },
	"register": func(ctx context.Context, a *Allocator) error { _, err := a.Register(ctx, root("q", "10.2.0.0/24")); return err },
	"exclude": func(ctx context.Context, a *Allocator) error {
		return a.Exclude(ctx, "p", []netip.Prefix{prefix("10.0.0.192/26")})
	},
	"drain":  func(ctx context.Context, a *Allocator) error { return a.Drain(ctx, "p") },
	"retire": func(ctx context.Context, a *Allocator) error { return a.Retire(ctx, "empty") },
	"carve": func(ctx context.Context, a *Allocator) error {
		p, err := a.Carve(ctx, request("p", "new", 26), Pool{ID: "new", Cluster: "tenant", Name: "new"})
		if err == nil && p.CIDR != prefix("10.0.0.64/26") {
			err = fmt.Errorf("got %s", p.CIDR)
		}
		return err
	},
	"retire a child": func(ctx context.Context, a *Allocator) error { return a.Retire(ctx, "child") },
	"release the last of a draining pool": func(ctx context.Context, a *Allocator) error { return a.Release(ctx, "last") },
}

// crashPoints are where the process ends. Of those during the transaction nobody
// can say how far it came.
var crashPoints = map[string]struct {
	arm             func(*hooks)
	done, uncertain bool
}{
	"before": {arm: func(h *hooks) {
		h.beforeCommit = func(SpaceID) error { os.Exit(crashed); return nil }
	}},
	"during, at once":        {arm: killIn(0), uncertain: true},
	"during, after 300 µs":   {arm: killIn(300 * time.Microsecond), uncertain: true},
	"during, after 1,500 µs": {arm: killIn(1500 * time.Microsecond), uncertain: true},
	"after": {done: true, arm: func(h *hooks) {
		h.afterCommit = func(SpaceID) error { os.Exit(crashed); return nil }
	}},
}

// crashed is the exit code of a child that ended where it should.
const crashed = 42

// killIn kills the process some time after the transaction has begun, as the
// kernel would.
func killIn(d time.Duration) func(*hooks) {
	return func(h *hooks) {
		h.beforeCommit = func(SpaceID) error {
			time.AfterFunc(d, func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) })
			return nil
		}
		h.afterCommit = func(SpaceID) error { select {} }
	}
}

// The process ends before, during or after a transaction, and its etcd with it.
// What the ledger then holds is what it held before or all that was asked for,
// and asking again gives what a process that had not ended would have given.
func TestCrash(t *testing.T) {
	for name, op := range crashOps {
		t.Run(name, func(t *testing.T) {
			before, after := whole(t, op)
			for point, at := range crashPoints {
				t.Run(point, func(t *testing.T) {
					t.Parallel()
					dir := t.TempDir()
					prepare(t, dir).etcd.Stop()
					crash(t, dir, name, point)

					e := etcdtest.NewWith(t, embedetcd.Options{Dir: dir})
					found := contents(t, e.Client())
					if !maps.Equal(found, after) && (at.done || !maps.Equal(found, before)) {
						t.Error("the ledger holds", found)
					}
					if !at.done && !at.uncertain && !maps.Equal(found, before) {
						t.Error("the ledger holds more than before", found)
					}
					l := reopen(t, e)
					if err := op(t.Context(), l.Allocator); err != nil {
						t.Error("again:", err)
					}
					l.holds(settledContents(after))
					l.sameAsLedger()
				})
			}
		})
	}
}

// TestCrash_Child is what TestCrash runs in a process of its own.
func TestCrash_Child(t *testing.T) {
	told := strings.Split(os.Getenv(crashEnv), "\n")
	if len(told) != 3 {
		return
	}
	server, err := embedetcd.Start(t.Context(), embedetcd.Options{Dir: told[0]})
	if err != nil {
		t.Fatal(err)
	}
	a, err := Open(t.Context(), server.Client(), Options{MaxTxnOps: server.MaxTxnOps()})
	if err != nil {
		t.Fatal(err)
	}
	crashPoints[told[2]].arm(&a.hooks)
	t.Fatalf("still there, after %v", crashOps[told[1]](t.Context(), a))
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
func prepare(t *testing.T, dir string) *ledger {
	t.Helper()
	l := reopen(t, etcdtest.NewWith(t, embedetcd.Options{Dir: dir}))
	l.pool("p", "10.0.0.0/24")
	l.pool("empty", "10.1.0.0/24")
	l.pool("draining", "10.3.0.0/24")
	l.bind(request("p", "c", 26))
	l.bind(request("draining", "last", 26))
	if _, err := l.Carve(t.Context(), request("p", "child", 25), Pool{ID: "child", Cluster: "tenant", Name: "child"}); err != nil {
		t.Fatal(err)
	}
	if err := l.Drain(t.Context(), "draining"); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return l
}

func reopen(t *testing.T, e *etcdtest.Etcd) *ledger {
	t.Helper()
	l := &ledger{t: t, etcd: e}
	l.Allocator = l.open()
	return l
}

// whole is what a ledger holds before an op and after it, if nothing happens.
func whole(t *testing.T, op func(context.Context, *Allocator) error) (before, after map[string]string) {
	t.Helper()
	l := prepare(t, t.TempDir())
	before = contents(t, l.etcd.Client())
	l.Allocator = l.open()
	if err := op(t.Context(), l.Allocator); err != nil {
		t.Fatal(err)
	}
	return before, contents(t, l.etcd.Client())
}

// volatile is what differs from one ledger to the next: times and counts.
var volatile = regexp.MustCompile(`"at":"[^"]*"|"n":\d+`)

// contents are the keys of a ledger with their values.
func contents(t *testing.T, client *clientv3.Client) map[string]string {
	t.Helper()
	resp, err := client.Get(t.Context(), defaultPrefix+"/", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, kv := range resp.Kvs {
		all[strings.TrimPrefix(string(kv.Key), defaultPrefix)] = volatile.ReplaceAllString(string(kv.Value), "")
	}
	delete(all, "/ledger")
	return all
}
