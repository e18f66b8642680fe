package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/embedetcd"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/bench/harness"
	"github.com/kcp-ipam/ipam/test/chaos/etcd"
	"github.com/kcp-ipam/ipam/test/fleet"
	"github.com/kcp-ipam/ipam/test/framework/local"
	"github.com/kcp-ipam/ipam/test/framework/wire"
	"github.com/kcp-ipam/ipam/test/gen"
)

const (
	platform = "root:ipam"
	// name is the name of the one class, and of the pool behind it.
	name = "shared"
	// fillers is how many blocks are bound at a time to fill the ledger.
	fillers = 1024
)

// stage is a stand-in for kcp, and a controller on it that is not started yet.
type stage struct {
	*local.Controller
	dir    string
	socket string        // where the controller is asked to verify
	etcd   *etcd.Cluster // nil if it is embedded
	// standby takes over from the controller, and address leads to the webhooks of both. Both are nil if etcd is
	// embedded.
	standby *local.Controller
	address *wire.Link
	server  *fleet.Server
	crowd   *fleet.Crowd
	web     *http.Server
	say     harness.Say
}

// newStage makes a stand-in with workspaces and claims, and a ledger with the claims' blocks.
func newStage(ctx context.Context, opts *options, workspaces, claims int, say harness.Say) (*stage, error) {
	root, err := local.ModuleRoot()
	if err != nil {
		return nil, err
	}
	s := &stage{say: say}
	if err := os.MkdirAll(filepath.Join(root, ".cache"), 0o755); err != nil {
		return nil, err
	}
	if s.dir, err = os.MkdirTemp(filepath.Join(root, ".cache"), "fleet-"); err != nil {
		return nil, err
	}
	if err := s.up(ctx, opts, workspaces, claims); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *stage) up(ctx context.Context, opts *options, workspaces, claims int) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	url := "http://" + listener.Addr().String()
	s.crowd = fleet.NewCrowd(workspaces, claims, shards)
	s.server = fleet.New(platform, s.crowd)
	if err := s.furnish(url); err != nil {
		return err
	}
	binary := filepath.Join(s.dir, "ipam-controller")
	if err := local.Build(ctx, "./cmd/ipam-controller", binary); err != nil {
		return err
	}
	s.socket = filepath.Join(s.dir, "verify.sock")
	flags := []string{"--verify-socket=" + s.socket}
	if opts.external {
		if s.etcd, err = etcd.New(ctx, etcd.Options{Dir: s.dir, Fsync: true}); err != nil {
			return err
		}
		if s.address, err = wire.New(); err != nil {
			return err
		}
		flags = slices.Concat(flags, s.etcd.Flags(), []string{"--leader-elect", "--webhook-url=https://" + s.address.Addr()})
	}
	controller := local.ControllerOptions{
		Binary: binary, Dir: s.dir, Workspace: platform, Identity: &rest.Config{Host: url}, Profiles: true, Flags: flags,
	}
	if s.Controller, err = local.NewController(ctx, controller); err != nil {
		return err
	}
	if opts.external {
		controller.Dir, controller.Flags = filepath.Join(s.dir, "standby"), flags[1:] // one of them serves the socket
		if s.standby, err = local.NewController(ctx, controller); err != nil {
			return err
		}
		s.address.Add(s.WebhookAddress())
		s.address.Add(s.standby.WebhookAddress())
	}
	if err := s.fill(ctx); err != nil {
		return err
	}
	s.web = &http.Server{Handler: s.server, ReadHeaderTimeout: time.Minute}
	go func() { _ = s.web.Serve(listener) }() // it ends with close
	return nil
}

// furnish makes the one class and its pool.
func (s *stage) furnish(url string) error {
	return errors.Join(
		s.server.Furnish(url),
		s.server.Create("ipclasses", gen.Class(name)),
		s.server.Create("ippools", gen.Pool(name, gen.CIDR("10.0.0.0/8"), gen.Backs(name), gen.Visible(ipamv1alpha1.VisibilityPlatform))),
	)
}

// ledger opens the ledger of the controller, which must not run. The returned function shut closes the ledger.
func (s *stage) ledger(ctx context.Context) (ledger *allocator.Allocator, shut func() error, err error) {
	opts := allocator.Options{Prefix: "/ipam/v1"}
	var client *clientv3.Client
	var stop func() error
	if s.etcd != nil {
		if client, err = etcd.Dial(s.etcd.Addrs()...); err != nil {
			return nil, nil, err
		}
		stop = client.Close
	} else {
		embedded, err := embedetcd.Start(ctx, embedetcd.Options{Dir: s.LedgerDir(), Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			return nil, nil, err
		}
		client, stop, opts.MaxTxnOps = embedded.Client(), embedded.Close, embedded.MaxTxnOps()
	}
	if ledger, err = allocator.Open(ctx, client, opts); err != nil {
		return nil, nil, errors.Join(err, stop())
	}
	return ledger, func() error { return errors.Join(ledger.Close(), stop()) }, nil
}

// fill binds the blocks of all claims in the ledger of the controller.
func (s *stage) fill(ctx context.Context) (err error) {
	began := time.Now()
	alloc, shut, err := s.ledger(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, shut()) }()
	uid, cluster := s.server.PlatformUID("ippools", name)
	pool := ledger.PoolID(uid)
	_, err = alloc.Pools().Register(ctx, ledger.Pool{ID: pool, Cluster: ledger.ClusterName(cluster), Name: name, CIDR: netip.MustParsePrefix("10.0.0.0/8")})
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(fillers)
	for i := range s.crowd.Claims() {
		group.Go(func() error { return s.bind(ctx, alloc, pool, i) })
	}
	err = group.Wait()
	s.say("the ledger has %d blocks, after %.0f s", s.crowd.Claims(), time.Since(began).Seconds())
	return err
}

func (s *stage) bind(ctx context.Context, alloc *allocator.Allocator, pool ledger.PoolID, i int) error {
	claim, cluster, namespace, of := s.crowd.Holder(i)
	block, err := alloc.Bind(ctx, ledger.Request{Pool: pool, Length: 32, Class: name, Policy: ledger.Delete, Holder: ledger.Holder{
		Claim: ledger.ClaimID(claim), Cluster: ledger.ClusterName(cluster), Namespace: namespace, Name: of,
	}})
	if err != nil {
		return fmt.Errorf("bind the block of claim %d: %w", i, err)
	}
	s.crowd.Holds(i, block.Prefix.Addr())
	return nil
}

// close stops everything that runs, and removes its files.
func (s *stage) close() error {
	var errs []error
	for _, c := range []*local.Controller{s.Controller, s.standby} {
		if c != nil && c.Running() {
			errs = append(errs, c.Stop())
		}
	}
	if s.address != nil {
		errs = append(errs, s.address.Close())
	}
	if s.etcd != nil {
		errs = append(errs, s.etcd.Close())
	}
	if s.web != nil {
		errs = append(errs, s.web.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(s.dir))...)
}

// spent is the name of the metric of the processor time.
const spent = "process_cpu_seconds_total"

// size is the memory of the controller.
type size struct {
	resident, live float64 // in bytes; live is the part of the heap that is in use
}

func (s size) String() string {
	return fmt.Sprintf("%.0f MiB of live heap, %.0f MiB resident", s.live/(1<<20), s.resident/(1<<20))
}

func (s *stage) metrics(ctx context.Context) (harness.Metrics, error) {
	text, err := s.Metrics(ctx)
	if err != nil {
		return nil, err
	}
	return harness.ParseMetrics(text)
}

// allocated matches the heap in use right after the collection that the profile asks for. The metric would show it
// later, together with the garbage of a sweep.
var allocated = regexp.MustCompile(`(?m)^# HeapAlloc = ([0-9]+)$`)

// size collects garbage, and then measures.
func (s *stage) size(ctx context.Context) (size, error) {
	profile, err := s.Profile(ctx, "heap?gc=1&debug=1")
	if err != nil {
		return size{}, err
	}
	found := allocated.FindStringSubmatch(profile)
	if found == nil {
		return size{}, errors.New("the profile of the heap does not tell how much is allocated")
	}
	live, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		return size{}, err
	}
	m, err := s.metrics(ctx)
	return size{m.Sum("process_resident_memory_bytes"), live}, err
}
