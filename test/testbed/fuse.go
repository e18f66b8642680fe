package testbed

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// ErrKilled is the answer to each write of a dead process.
var ErrKilled = errors.New("the process was killed")

// Fuse kills a process after a number of writes. Writes to etcd and to servers of Kubernetes count alike. The last
// write is done, but the process does not learn of it. Fuse is safe for concurrent use.
type Fuse struct {
	left atomic.Int64
	kill context.CancelCauseFunc
}

// NewFuse returns a fuse, and the context of its process.
func NewFuse(t testing.TB, writes int) (*Fuse, context.Context) {
	t.Helper()
	ctx, kill := context.WithCancelCause(t.Context())
	t.Cleanup(func() { kill(nil) })
	f := &Fuse{kill: kill}
	f.left.Store(int64(writes))
	return f, ctx
}

// Blown reports whether the process is dead.
func (f *Fuse) Blown() bool { return f.left.Load() <= 0 }

// write does a write, unless the process is dead. A write that changes nothing does not count.
func (f *Fuse) write(do func() (wrote bool, err error)) error {
	if f.Blown() {
		return ErrKilled
	}
	wrote, err := do()
	if wrote && f.left.Add(-1) <= 0 {
		f.kill(ErrKilled)
		return ErrKilled
	}
	return err
}

// call does a write to a server of Kubernetes.
func (f *Fuse) call(do func() error) error {
	return f.write(func() (bool, error) {
		err := do()
		return err == nil, err
	})
}

// Etcd returns a client for the process, which writes to the etcd of c.
func (f *Fuse) Etcd(c *clientv3.Client) *clientv3.Client {
	own := *c
	own.KV = fusedKV{c.KV, f}
	return &own
}

type fusedKV struct {
	clientv3.KV
	fuse *Fuse
}

// Txn implements clientv3.KV.
func (f fusedKV) Txn(ctx context.Context) clientv3.Txn {
	return &fusedTxn{Txn: f.KV.Txn(ctx), fuse: f.fuse}
}

type fusedTxn struct {
	clientv3.Txn
	fuse   *Fuse
	writes bool
}

// If implements clientv3.Txn.
func (f *fusedTxn) If(all ...clientv3.Cmp) clientv3.Txn {
	f.Txn = f.Txn.If(all...)
	return f
}

// Then implements clientv3.Txn.
func (f *fusedTxn) Then(all ...clientv3.Op) clientv3.Txn {
	f.writes = f.writes || slices.ContainsFunc(all, func(op clientv3.Op) bool { return !op.IsGet() })
	f.Txn = f.Txn.Then(all...)
	return f
}

// Else implements clientv3.Txn.
func (f *fusedTxn) Else(all ...clientv3.Op) clientv3.Txn {
	f.Txn = f.Txn.Else(all...)
	return f
}

// Commit implements clientv3.Txn.
func (f *fusedTxn) Commit() (resp *clientv3.TxnResponse, err error) {
	if !f.writes {
		return f.Txn.Commit()
	}
	err = f.fuse.write(func() (bool, error) {
		resp, err = f.Txn.Commit()
		return err == nil && resp.Succeeded, err
	})
	return resp, err
}

// Client returns a client for the process, which writes to the server of c.
func (f *Fuse) Client(c client.Client) client.Client {
	return interceptor.NewClient(c.(client.WithWatch), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			return f.call(func() error { return c.Create(ctx, obj, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			return f.call(func() error { return c.Delete(ctx, obj, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return f.call(func() error { return c.Patch(ctx, obj, patch, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, name string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			return f.call(func() error { return c.SubResource(name).Patch(ctx, obj, patch, opts...) })
		},
	})
}
