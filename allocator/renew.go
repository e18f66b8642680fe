package allocator

import (
	"context"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Renew gives another ID to a ledger that was restored from a copy: it is another ledger than the one that the statuses
// of the pools name. So the next process adopts the published records before it binds anything, even if the copy seems
// to have every change. Nobody may use the ledger meanwhile. An empty prefix is the default of Options.
func Renew(ctx context.Context, client *clientv3.Client, prefix string) error {
	return store.NewStore(client, prefix).Renew(ctx)
}
