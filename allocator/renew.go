package allocator

import (
	"context"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Renew gives a ledger that was restored from a copy another ID: it is another ledger than the one that the statuses of
// the pools name. So the next process adopts what is published before it binds anything, also if a copy seems to have
// every change. Nobody may use the ledger meanwhile. An empty prefix is the default of Options.
func Renew(ctx context.Context, client *clientv3.Client, prefix string) error {
	return store.NewStore(client, prefix).Renew(ctx)
}
