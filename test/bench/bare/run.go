// Package bare is the least that can answer a claim: a controller on the same stack as ipam-controller, with the same
// settings, that creates an IPAllocation and patches the claim's status with the next CIDR of a counter. It resolves
// nothing, remembers nothing, and only one may run. The extra time of ipam-controller is the cost of its answers.
package bare

import (
	"context"
	"encoding/binary"
	"net/netip"
	"sync/atomic"

	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"github.com/kcp-dev/multicluster-provider/apiexport"
	"github.com/spf13/pflag"
	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	mcbuilder "sigs.k8s.io/multicluster-runtime/pkg/builder"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/apis/ipam/v1controller1"
	"github.com/kcp-ipam/ipam/workspaces"
)

// Run serves until ctx ends. The flags are those of ipam-controller, because both are started in the same way. Flags
// for its etcd and its platform have no effect here.
func Run(ctx context.Context, args []string) error {
	var opts manager.Options
	flags := pflag.NewFlagSet("bare", pflag.ContinueOnError)
	kubeconfig := flags.String("kubeconfig", "", "how to reach the workspace of the APIExport")
	workers := flags.Int("workers", 16, "how many claims are looked at side by side")
	flags.StringVar(&opts.HealthProbeBindAddress, "health-probe-bind-address", "0", "address of /readyz")
	flags.StringVar(&opts.Metrics.BindAddress, "metrics-bind-address", "0", "address of /metrics")
	flags.StringVar(&opts.PprofBindAddress, "pprof-bind-address", "", "address of /debug/pprof")
	flags.String("workspace", "", "ignored: the kubeconfig names it")
	flags.String("etcd-data-dir", "", "ignored: nothing is stored")
	flags.String("webhook-bind-address", "", "ignored: CREATE is not answered")
	if err := flags.Parse(args); err != nil {
		return err
	}
	zapLog, err := zap.NewProduction()
	if err != nil {
		return err
	}
	opts.Logger = zapr.NewLogger(zapLog)
	log.SetLogger(opts.Logger)
	klog.SetLogger(opts.Logger)

	cfg, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	cfg.QPS, cfg.Burst = -1, -1
	mgr, err := newManager(cfg, opts)
	if err != nil {
		return err
	}
	c := &counter{clusters: mgr}
	err = mcbuilder.ControllerManagedBy(mgr).
		Named("bare").
		WithOptions(controller.TypedOptions[mcreconcile.Request]{MaxConcurrentReconciles: *workers}).
		For(&ipamv1alpha1.IPClaim{}, mcbuilder.WithEngageWithLocalCluster(false), mcbuilder.WithEngageWithProviderClusters(true)).
		Complete(mcreconcile.Func(c.reconcile))
	if err != nil {
		return err
	}
	return mgr.Start(ctx)
}

func newManager(cfg *rest.Config, opts manager.Options) (mcmanager.Manager, error) {
	opts.Scheme = workspaces.NewScheme()
	provider, err := apiexport.New(cfg, workspaces.ExportName, apiexport.Options{
		Scheme: opts.Scheme,
		Log:    new(logr.Discard()),
	})
	if err != nil {
		return nil, err
	}
	mgr, err := mcmanager.New(cfg, provider, opts)
	if err != nil {
		return nil, err
	}
	return mgr, mgr.AddReadyzCheck("ping", healthz.Ping)
}

// counter answers every claim with the next block.
type counter struct {
	clusters mcmanager.Manager
	given    atomic.Uint32
}

func (c *counter) reconcile(ctx context.Context, req mcreconcile.Request) (reconcile.Result, error) {
	cl, err := c.clusters.GetCluster(ctx, req.ClusterName)
	if err != nil {
		return reconcile.Result{}, err
	}
	claim := &ipamv1alpha1.IPClaim{}
	err = cl.GetClient().Get(ctx, req.NamespacedName, claim)
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, err
	}
	if err != nil {
		// Between the rounds all claims are deleted. This is not measured.
		record := &ipamv1alpha1.IPAllocation{ObjectMeta: recordMeta(req)}
		return reconcile.Result{}, client.IgnoreNotFound(cl.GetClient().Delete(ctx, record))
	}
	if claim.Status.AllocatedCIDR != "" {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, c.answer(ctx, cl.GetClient(), req, claim)
}

// answer makes the two writes.
func (c *counter) answer(ctx context.Context, cl client.Client, req mcreconcile.Request, claim *ipamv1alpha1.IPClaim) error {
	cidr := c.next()
	record := &ipamv1alpha1.IPAllocation{
		ObjectMeta: recordMeta(req),
		Spec: ipamv1alpha1.IPAllocationSpec{
			IPFamily:      ipamv1alpha1.IPv4,
			PoolRef:       ipamv1alpha1.PoolRef{Name: "counter"},
			ClaimRef:      &ipamv1alpha1.ClaimRef{Name: claim.Name, UID: claim.UID},
			ReclaimPolicy: ipamv1alpha1.ReclaimDelete,
		},
		Status: ipamv1alpha1.IPAllocationStatus{Phase: ipamv1alpha1.AllocationReady, AllocatedCIDR: cidr},
	}
	before := &v1controller1.IPClaim{IPClaim: *claim.DeepCopy()}
	claim.Status.Phase, claim.Status.AllocatedCIDR = ipamv1alpha1.ClaimBound, cidr
	if err := cl.Create(ctx, record); err != nil {
		return err
	}
	return cl.Status().Patch(ctx, &v1controller1.IPClaim{IPClaim: *claim}, client.MergeFrom(before))
}

// next returns a /28 that was not given before, until 10.0.0.0/8 is used up.
func (c *counter) next() string {
	var address [4]byte
	binary.BigEndian.PutUint32(address[:], 10<<24|c.given.Add(1)<<4)
	return netip.PrefixFrom(netip.AddrFrom4(address), 28).String()
}

func recordMeta(req mcreconcile.Request) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: req.Namespace, Name: ipamv1alpha1.AllocationName(req.Namespace, req.Name)}
}
