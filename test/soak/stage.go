package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"github.com/kcp-ipam/ipam/test/bench/harness"
	"github.com/kcp-ipam/ipam/test/chaos/etcd"
	"github.com/kcp-ipam/ipam/test/chaos/history"
	"github.com/kcp-ipam/ipam/test/framework/local"
	"github.com/kcp-ipam/ipam/workspaces"
)

const (
	platform = "root:ipam"
	members  = 3
	prefix   = "/ipam/v1" // of the ledger
)

// stage is all that runs.
type stage struct {
	*harness.Ground
	*options
	objects *clientv3.Client // of kcp's own etcd
	ledger  *etcd.Cluster
	// hands must be held to start, stop and kill.
	hands    sync.Mutex
	replicas []*local.Controller
	tenants  []*tenant
	history  *history.History
	record   *record
}

// newStage makes everything ready. What it has made is taken down if it fails.
func newStage(ctx context.Context, opts *options, say harness.Say) (*stage, error) {
	ground, err := harness.NewGround(ctx, "soak", say)
	if err != nil {
		return nil, err
	}
	s := &stage{Ground: ground, options: opts, record: &record{}}
	if err := s.up(ctx); err != nil {
		return nil, s.close(err)
	}
	return s, nil
}

func (s *stage) up(ctx context.Context) error {
	if err := s.follow(ctx); err != nil {
		return err
	}
	if err := workspaces.Bootstrap(ctx, s.Admin, workspaces.Options{Workspace: platform}); err != nil {
		return err
	}
	s.Say("building and starting %d members of etcd and %d replicas", members, s.options.replicas)
	if err := s.upLedger(ctx); err != nil {
		return err
	}
	if err := s.upReplicas(ctx); err != nil {
		return err
	}
	s.Say("making %d tenants", s.workspaces)
	if err := s.furnish(ctx); err != nil {
		return err
	}
	return s.upTenants(ctx)
}

// follow begins to check the history of kcp.
func (s *stage) follow(ctx context.Context) (err error) {
	if s.objects, err = s.KCP.Store(); err != nil {
		return err
	}
	asked, answered := context.WithTimeout(ctx, patience)
	defer answered()
	s.history, err = history.Follow(asked, s.objects)
	return err
}

func (s *stage) upLedger(ctx context.Context) (err error) {
	dir := filepath.Join(s.Dir, "etcd")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	s.ledger, err = etcd.New(ctx, etcd.Options{Dir: dir, Members: members, Fsync: true, Keep: s.keep})
	return err
}

func (s *stage) upReplicas(ctx context.Context) error {
	identity, err := workspaces.TokenConfig(ctx, workspaces.At(s.Admin, platform), 24*time.Hour)
	if err != nil {
		return err
	}
	binary := filepath.Join(s.Dir, "ipam-controller")
	if err := local.Build(ctx, "./cmd/ipam-controller", binary); err != nil {
		return err
	}
	for i := range s.options.replicas {
		dir := filepath.Join(s.Dir, replicaName(i))
		replica, err := local.NewController(ctx, local.ControllerOptions{
			Binary: binary, Dir: dir, Workspace: platform, Identity: identity,
			Profiles: true,
			Flags: append([]string{
				s.servers(), socket(dir),
				"--sweep-interval=5s", "--orphan-min-age=10s", // what a kill leaves is found within a calm
			}, s.controllerFlags...),
		})
		if err != nil {
			return err
		}
		if err := replica.Start(ctx); err != nil {
			return err
		}
		s.replicas = append(s.replicas, replica)
	}
	return nil
}

// servers is the flag that says where the ledger is.
func (s *stage) servers() string {
	return "--etcd-servers=http://" + strings.Join(s.ledger.Addrs(), ",http://")
}

// socket is the flag that says where the replica in a folder can be asked to verify.
func socket(dir string) string { return "--verify-socket=" + filepath.Join(dir, "verify.sock") }

func (s *stage) upTenants(ctx context.Context) error {
	s.tenants = make([]*tenant, s.workspaces)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(4)
	for i := range s.tenants {
		group.Go(func() (err error) {
			s.tenants[i], err = s.newTenant(ctx, i)
			return err
		})
	}
	return group.Wait()
}

// close stops what runs, and returns the failure if there was one.
func (s *stage) close(failure error) error {
	errs := []error{failure}
	for _, replica := range s.replicas {
		errs = append(errs, replica.Stop())
	}
	if s.history != nil {
		s.history.Close()
	}
	if s.objects != nil {
		errs = append(errs, s.objects.Close())
	}
	if s.ledger != nil {
		errs = append(errs, s.ledger.Close())
	}
	return s.Close(errs...)
}
