package controllers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	"github.com/kcp-dev/sdk/apis/core"
	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/inbox"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
)

// StandalonePath is the path by which a cluster without kcp is named, as if it were a workspace.
const StandalonePath = "local"

// Workspace names a workspace: its logical cluster, and its path where that is known.
type Workspace = directory.Workspace

// Ground is what the controllers stand on: the platform workspace of a kcp, or a cluster without
// kcp.
type Ground struct {
	// Config reaches the platform.
	Config *rest.Config
	// Platform is the platform workspace, or the cluster without kcp.
	Platform Workspace
	// Export is the APIExport in the platform that tenants bind. It is empty on a cluster without kcp, which has none.
	Export string
	// Scheme is the scheme that the function Scheme returns.
	Scheme *runtime.Scheme
}

// reading returns the options of a live reader of the platform and its tenants.
func (g Ground) reading() live.Options {
	return live.Options{
		Config: g.Config, Slice: g.Export, Platform: g.Platform.Cluster, Path: g.Platform.Path, Scheme: g.Scheme,
	}
}

// Platform finds out which workspace cfg points at, from the export in it.
func Platform(ctx context.Context, cfg *rest.Config, scheme *runtime.Scheme) (Workspace, error) {
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return Workspace{}, err
	}
	export := &apisv1alpha2.APIExport{}
	if err := c.Get(ctx, client.ObjectKey{Name: ipamv1alpha1.GroupName}, export); err != nil {
		return Workspace{}, fmt.Errorf("read APIExport %s (is this the platform workspace, and bootstrapped?): %w",
			ipamv1alpha1.GroupName, err)
	}
	return Workspace{
		Cluster: ledger.ClusterName(export.Annotations["kcp.io/cluster"]),
		Path:    export.Annotations[core.LogicalClusterPathAnnotationKey],
	}, nil
}

// Standalone finds out which cluster cfg points at, if that is a cluster without kcp. The UID of the cluster's
// namespace kube-system takes the place of the name of a logical cluster: no two clusters have the same UID there, and
// it lasts as long as the cluster.
func Standalone(ctx context.Context, cfg *rest.Config, scheme *runtime.Scheme) (Workspace, error) {
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return Workspace{}, err
	}
	namespace := &corev1.Namespace{}
	if err := c.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, namespace); err != nil {
		return Workspace{}, fmt.Errorf("read namespace %s, whose UID names the cluster: %w", metav1.NamespaceSystem, err)
	}
	return Workspace{Cluster: ledger.ClusterName(namespace.UID), Path: StandalonePath}, nil
}

// Ledger is the ledger of a platform, and the queues that the ledger reports to. The leader opens it.
type Ledger struct {
	*allocator.Allocator // nil before open

	etcd      *clientv3.Client
	options   allocator.Options
	directory *directory.Directory
	inbox     *inbox.Inbox
	cooldowns *catalog.Cooldowns
	healthy   atomic.Pointer[func(context.Context) error]
	opened    chan struct{} // closed by open
	mu        sync.Mutex    // held while the ledger is opened or closed
}

// NewLedger returns the ledger of a platform. It is not open yet. The controllers set these fields of opts: Wake,
// Cooldown, Changed and Retired. The caller closes the ledger.
func NewLedger(etcd *clientv3.Client, platform Workspace, opts allocator.Options) *Ledger {
	known := directory.New(platform)
	l := &Ledger{
		etcd: etcd, options: opts, directory: known, inbox: inbox.New(known), cooldowns: &catalog.Cooldowns{},
		opened: make(chan struct{}),
	}
	answers := func(ctx context.Context) error {
		_, err := l.reader().Leader(ctx)
		return err
	}
	l.healthy.Store(&answers)
	return l
}

// reader returns a reader of the ledger. It needs no open ledger, and changes nothing.
func (l *Ledger) reader() allocator.Reader {
	return allocator.Reader{Client: l.etcd, Prefix: l.options.Prefix}
}

// open opens the ledger for the leader, which the other replicas reach at this address. The ledger is frozen until the
// controllers have compared it with the published record.
func (l *Ledger) open(ctx context.Context, at string) (err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	opts := l.options
	opts.Address, opts.Frozen = at, true
	opts.Wake, opts.Retired = l.inbox.Wake, l.inbox.Retired
	opts.Changed = func(pools allocator.Pools, ids ...ledger.PoolID) { l.inbox.Changed(pools, ids...) }
	opts.Cooldown = l.cooldowns.Of
	if l.Allocator, err = allocator.Open(ctx, l.etcd, opts); err != nil {
		return err
	}
	if l.Pools().Count(l.directory.Platform().Cluster.Otherwise()) > 0 {
		return errors.Join(errTenants, l.Allocator.Close())
	}
	healthy := func(context.Context) error { return l.Healthy() }
	l.healthy.Store(&healthy)
	close(l.opened)
	return nil
}

// errTenants is the error of a ledger whose holders were named under the other value of --tenants.
var errTenants = errors.New(
	"the ledger was made with the other --tenants: give that, or begin with an empty ledger and without claims")

// Close closes the ledger if it was opened. It also shuts the queues down: their controllers do so only if they were
// started.
func (l *Ledger) Close() error {
	l.inbox.ShutDown()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.Allocator == nil {
		return nil
	}
	return l.Allocator.Close()
}

// serves reports whether the workspace is the platform's, or has a binding.
func (l *Ledger) serves(cluster ledger.ClusterName) bool {
	return cluster == l.directory.Platform().Cluster || l.directory.Bound(cluster)
}
