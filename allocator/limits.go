package allocator

import (
	"context"

	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// secure makes sure that there is a fence for the limit of a request's class, if it has one,
// and that memory has all that was bound before. From then on every bind by the class puts
// the fence.
func (a *Allocator) secure(ctx context.Context, r ledger.Request) error {
	if !space.ClassLimited(r) {
		return nil
	}
	to := space.ClassAccount(r)
	if a.table.Quotas.Fence(to) > 0 {
		return nil
	}
	return a.fence(ctx, a.keys.Quota(to.Class, to.Cluster))
}

// fence makes a fence, unless it is there, and waits until memory has it.
func (a *Allocator) fence(ctx context.Context, key string) error {
	if err := a.Err(); err != nil {
		return err
	}
	resp, err := a.store.Commit(ctx, store.Cmps(store.Absent(key)), store.Ops(store.Put(key, store.EncodeFence())), store.Ops(store.Get(key)))
	if err != nil {
		return err
	}
	revision := resp.Header.Revision
	if kv := store.Results(resp.Responses).Found(0); !resp.Succeeded && kv != nil {
		revision = kv.ModRevision
	}
	return a.engine.Watched.Await(ctx, revision)
}
