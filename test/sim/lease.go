package sim

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// The times of an election are the controller's defaults.
const (
	leaseLasts = 3 * time.Second
	leaseRenew = 2 * time.Second
	leaseRetry = 400 * time.Millisecond
)

// lock is the Lease of the replicas, as a process sees it. A process that was killed as a standby wins an election
// that no other process sees: its controllers have to run once, so that they end their queues.
type lock struct {
	resourcelock.Interface
	dead <-chan struct{}
}

func (l lock) isDead() bool {
	select {
	case <-l.dead:
		return true
	default:
		return false
	}
}

// Get implements resourcelock.Interface.
func (l lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if l.isDead() {
		return nil, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "leases"}, l.Describe())
	}
	return record, raw, err
}

// Create implements resourcelock.Interface.
func (l lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if l.isDead() {
		return nil
	}
	return l.Interface.Create(ctx, record)
}

// Update implements resourcelock.Interface.
func (l lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if l.isDead() {
		return nil
	}
	return l.Interface.Update(ctx, record)
}

// elect lets a process take part in the election, if there are several replicas.
func (p *process) elect(options *manager.Options, kcp *rest.Config) error {
	if !p.elects {
		return nil
	}
	plain := rest.CopyConfig(kcp)
	plain.ContentType = runtime.ContentTypeJSON // simkcp reads nothing else
	lease, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, "ipam-system", "ipam-controller",
		resourcelock.ResourceLockConfig{Identity: p.name}, plain, leaseRenew)
	if err != nil {
		return errors.Join(errors.New("the lease"), err)
	}
	options.LeaderElection, options.LeaderElectionReleaseOnCancel = true, true
	options.LeaderElectionResourceLockInterface = lock{lease, p.dead}
	options.LeaseDuration, options.RenewDeadline, options.RetryPeriod = new(leaseLasts), new(leaseRenew), new(leaseRetry)
	return nil
}
