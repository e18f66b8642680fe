package controllers

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/inbox"
)

// Ledger is the open ledger of a platform, and the queues that it reports to.
type Ledger struct {
	*allocator.Allocator

	directory *directory.Directory
	inbox     *inbox.Inbox
	cooldowns *catalog.Cooldowns
}

// OpenLedger opens the ledger of a platform. Of opts it sets what the ledger asks the controllers
// and tells them: Wake, Cooldown, Changed and Retired. The ledger is frozen until the controllers
// of a leader have compared it with the published record. The caller closes it.
func OpenLedger(ctx context.Context, etcd *clientv3.Client, platform Workspace, opts allocator.Options) (*Ledger, error) {
	known := directory.New(platform)
	l := &Ledger{directory: known, inbox: inbox.New(known), cooldowns: &catalog.Cooldowns{}}
	opts.Frozen = true
	opts.Wake, opts.Retired = l.inbox.Wake, l.inbox.Retired
	opts.Changed = func(pools allocator.Pools, ids ...ledger.PoolID) { l.inbox.Changed(pools, ids...) }
	opts.Cooldown = l.cooldowns.Of
	var err error
	if l.Allocator, err = allocator.Open(ctx, etcd, opts); err != nil {
		return nil, err
	}
	return l, nil
}

// serves reports whether the workspace is the platform's, or has a binding.
func (l *Ledger) serves(cluster ledger.ClusterName) bool {
	return cluster == l.directory.Platform().Cluster || l.directory.Bound(cluster)
}
