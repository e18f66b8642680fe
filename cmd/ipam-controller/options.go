package main

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/capi"
	"github.com/kcp-ipam/ipam/controllers/derived"
	"github.com/kcp-ipam/ipam/controllers/recover"
	"github.com/kcp-ipam/ipam/controllers/sweep"
	"github.com/kcp-ipam/ipam/workspaces"
)

// The values of --tenants.
const (
	tenantCluster    = "cluster"
	tenantNamespaces = "namespaces"
)

// options are the flags of the command.
type options struct {
	kubeconfig string
	workspace  string
	standalone bool
	tenants    string
	capi       bool
	capiScope  capi.Scope
	bootstrap  bool
	request    bool
	identity   string

	etcdDataDir  string
	etcdListen   string
	etcdServers  []string
	etcdCAFile   string
	etcdCertFile string
	etcdKeyFile  string
	etcdPrefix   string
	etcdTxnOps   int

	election       election
	metricsAddress string

	metricsCertFile     string
	metricsKeyFile      string
	metricsClientCAFile string

	pprofAddress string
	probeAddress string
	workers      int
	unmet        string
	maxPools     int
	derivedIdle  time.Duration
	maxWaits     int
	sweep        sweep.Options
	verify       recover.VerifierOptions
	verifySocket string
	history      time.Duration
	historyMax   int
	webhooks     webhookOptions
	traces       traceOptions
	verbosity    int
	timeout      time.Duration
}

func defaults() *options {
	return &options{
		workspace:      "root:ipam",
		tenants:        tenantCluster,
		etcdDataDir:    "ipam-ledger",
		etcdPrefix:     "/ipam/v1",
		etcdTxnOps:     128,
		metricsAddress: ":8080",
		probeAddress:   ":8081",
		workers:        16,
		unmet:          string(ipamv1alpha1.UnmetWait),
		maxPools:       1000,
		derivedIdle:    derived.DefaultIdle,
		maxWaits:       10_000,
		election:       election{lease: 3 * time.Second, renew: 2 * time.Second, retry: 400 * time.Millisecond},
		sweep:          sweep.Defaults(),
		verify:         recover.VerifierDefaults(),
		history:        90 * 24 * time.Hour,
		historyMax:     1_000_000,
		webhooks:       webhookOptions{address: ":9443"},
		traces:         traceOptions{ratio: 0.01, service: "ipam-controller"},
		timeout:        time.Minute,
	}
}

func (o *options) addFlags(f *pflag.FlagSet) {
	o.addPlaceFlags(f)
	f.BoolVar(&o.bootstrap, "bootstrap", o.bootstrap, "make the platform workspace, or with --standalone the cluster, "+
		"ready first; the kubeconfig must be an admin's, the controller then runs as its service account")
	f.BoolVar(&o.request, "request-token", o.request,
		"request tokens of the service account "+workspaces.ControllerNamespace+"/"+workspaces.ControllerAccount+", "+
			"each for an hour, and run as it; the kubeconfig then needs the right to request them, and nothing else, "+
			"and is read again for each; --bootstrap does so anyway")
	f.StringVar(&o.identity, "accept-identity", o.identity,
		"identity hash of an APIExport that was made again without its secret: "+
			"the ledger takes it for its own, and all that tenants had before is freed as in any sweep; "+
			"empty: keep the one that the ledger has")
	o.addListenFlag(f)
	f.IntVar(&o.etcdTxnOps, "etcd-max-txn-ops", o.etcdTxnOps,
		"the external etcd's own --max-txn-ops: more of them let more claims share a transaction")
	o.election.addFlags(f)
	f.IntVar(&o.workers, "workers", o.workers, "how many claims are reconciled at once; "+
		"waiting claims of different workspaces take turns; with more workers, each request to kcp takes longer")
	f.DurationVar(&o.derivedIdle, "derived-pool-idle", o.derivedIdle,
		"how long a pool that was made for a scope, and that nobody uses, stays; 0: until its range claim is deleted")
	f.StringVar(&o.unmet, "default-unmet-policy", o.unmet,
		"Wait or Refuse: the unmetPolicy of claims that cannot be met now, if neither the claim nor its class has one; "+
			"classes of networks refuse")
	f.IntVar(&o.maxPools, "max-pools-per-workspace", o.maxPools, "how many pools a workspace may have, child pools, "+
		"address spaces, and the pools that its claims make for all workspaces included; "+
		"those of the platform are not counted; 0: any number")
	f.IntVar(&o.maxWaits, "max-waits-per-workspace", o.maxWaits,
		"at how many pools the claims of one workspace wait for room, each pool counted for each claim: "+
			"it bounds the memory that a workspace takes; 0: any number")
	f.DurationVar(&o.sweep.Interval, "sweep-interval", o.sweep.Interval,
		"how often to search the ledger for orphans: blocks whose claim is gone")
	f.DurationVar(&o.sweep.MinAge, "orphan-min-age", o.sweep.MinAge, "how old a block must be to count as an orphan")
	f.IntVar(&o.sweep.MaxFrees, "sweep-max-frees", o.sweep.MaxFrees,
		"how many orphans of one pool a sweep frees at most; if there are more, it frees none and waits for an operator; "+
			"0: it frees none")
	f.Float64Var(&o.sweep.MaxShare, "sweep-max-share", o.sweep.MaxShare,
		"which share of a pool's blocks a sweep frees at most, 0 to 1, and always up to ten blocks; "+
			"if there are more orphans, it frees none and waits for an operator")
	f.DurationVar(&o.verify.Interval, "verify-interval", o.verify.Interval,
		"how often to compare ledger, allocations and claims; less often, down to once in four hours, where that takes long")
	f.DurationVar(&o.history, "history", o.history,
		"how long the ledger keeps the former holder of an address after its release; give all replicas the same; "+
			"0: keep nothing, and delete what there is")
	f.IntVar(&o.historyMax, "history-max-records", o.historyMax,
		"how many former holders the ledger keeps at most, of about 0.4 KiB each in etcd; the oldest are deleted first; "+
			"0: no limit")
	addScopeFlags(f, &o.capiScope)
	o.webhooks.addFlags(f)
	o.traces.addFlags(f)
	o.addServingFlags(f)
}

// addServingFlags adds the flags of what every long-running command serves, and logs.
func (o *options) addServingFlags(f *pflag.FlagSet) {
	f.DurationVar(&o.timeout, "timeout", o.timeout,
		"how long a server may take for each answer before this one serves; 0: any time")
	f.StringVar(&o.metricsAddress, "metrics-bind-address", o.metricsAddress, "address of /metrics; 0 for none")
	f.StringVar(&o.metricsCertFile, "metrics-certfile", o.metricsCertFile,
		"certificate of /metrics, which is then served by TLS; read again when it is replaced")
	f.StringVar(&o.metricsKeyFile, "metrics-keyfile", o.metricsKeyFile, "key of that certificate")
	f.StringVar(&o.metricsClientCAFile, "metrics-client-cafile", o.metricsClientCAFile,
		"CA that signed the certificates of the clients that may read /metrics; empty: every client may")
	f.StringVar(&o.pprofAddress, "pprof-bind-address", o.pprofAddress,
		"address of /debug/pprof, which shows the inside of the process: give a local one, and only while you need it; "+
			"empty for none")
	f.StringVar(&o.probeAddress, "health-probe-bind-address", o.probeAddress,
		"address of /healthz and /readyz; 0 for none")
	f.IntVarP(&o.verbosity, "verbosity", "v", o.verbosity, "how much to log: 0 decisions, 1 more, 4 everything")
}

// addPlaceFlags adds the flags that say where kcp and the ledger are.
func (o *options) addPlaceFlags(f *pflag.FlagSet) {
	f.StringVar(&o.kubeconfig, "kubeconfig", o.kubeconfig,
		"kubeconfig of kcp, or of the cluster; empty: KUBECONFIG, the pod's service account, or ~/.kube/config")
	f.StringVar(&o.workspace, "workspace", o.workspace, "path of the platform workspace, which holds the APIExport")
	f.BoolVar(&o.standalone, "standalone", o.standalone, "serve one cluster without kcp; leave out --workspace")
	f.StringVar(&o.tenants, "tenants", o.tenants, "with --standalone, the tenants: "+
		"cluster for the whole cluster as one, or namespaces for each namespace; decide before the first claim")
	f.BoolVar(&o.capi, "capi", o.capi, "with --standalone, be an IPAM provider of Cluster API, "+
		"for IPAddressClaims whose spec.poolRef is an IPPool or IPClass; begins when Cluster API is installed")
	o.addStoreFlags(f)
}

// addStoreFlags adds the flags that say where the ledger is.
func (o *options) addStoreFlags(f *pflag.FlagSet) {
	o.addDirFlag(f)
	o.addServersFlags(f)
	o.addPrefixFlag(f)
	o.addSocketFlag(f)
}

// addPrefixFlag adds the flag that says where in etcd the ledger is.
func (o *options) addPrefixFlag(f *pflag.FlagSet) {
	f.StringVar(&o.etcdPrefix, "etcd-prefix", o.etcdPrefix, "prefix of all keys in etcd")
}

// addSocketFlag adds the flag for the socket at which a running controller is asked.
func (o *options) addSocketFlag(f *pflag.FlagSet) {
	f.StringVar(&o.verifySocket, "verify-socket", o.verifySocket,
		"socket on which a running controller answers the commands verify, history and backup; "+
			"empty: verify.sock in --etcd-data-dir, or with --etcd-servers none")
}

func (o *options) addListenFlag(f *pflag.FlagSet) {
	f.StringVar(&o.etcdListen, "etcd-listen-client-url", o.etcdListen, "where the embedded etcd answers etcdctl, "+
		"to take snapshots: unix:///path, or an http:// address of this machine; "+
		"a program that reaches it may read and write everything; empty for nowhere")
}

func (o *options) addDirFlag(f *pflag.FlagSet) {
	f.StringVar(&o.etcdDataDir, "etcd-data-dir", o.etcdDataDir,
		"directory of the embedded etcd, unless --etcd-servers is given")
}

// addServersFlags adds the flags that reach an external etcd.
func (o *options) addServersFlags(f *pflag.FlagSet) {
	f.StringSliceVar(&o.etcdServers, "etcd-servers", o.etcdServers, "URLs of an external etcd, comma-separated")
	f.StringVar(&o.etcdCAFile, "etcd-cafile", o.etcdCAFile, "CA that signed the certificates of the external etcd")
	f.StringVar(&o.etcdCertFile, "etcd-certfile", o.etcdCertFile, "client certificate for the external etcd")
	f.StringVar(&o.etcdKeyFile, "etcd-keyfile", o.etcdKeyFile, "key of the client certificate")
}

// socket returns the socket at which a running controller can be asked; empty: there is none.
func (o *options) socket() string {
	if o.verifySocket == "" && len(o.etcdServers) == 0 {
		return filepath.Join(o.etcdDataDir, "verify.sock")
	}
	return o.verifySocket
}

func (o *options) validate() error {
	return errors.Join(check(
		rule{o.capi && !o.standalone, "--capi goes with --standalone: " +
			"IPAddressClaims and IPPools are in one cluster; beside a kcp run ipam-controller capi"},
		rule{o.tenants != tenantCluster && o.tenants != tenantNamespaces,
			fmt.Sprintf("--tenants is %q; give it %s or %s", o.tenants, tenantCluster, tenantNamespaces)},
		rule{o.tenants == tenantNamespaces && !o.standalone,
			"--tenants=namespaces goes with --standalone: on kcp the workspaces are the tenants"},
		rule{!o.capi && o.capiScope != (capi.Scope{}), "--namespace and --watch-filter go with --capi"},
		rule{o.workers < 1, fmt.Sprintf("--workers is %d; give it at least 1", o.workers)},
		rule{o.derivedIdle < 0, fmt.Sprintf(
			"--derived-pool-idle is %s; give it a duration such as 10m, or 0 to keep such pools", o.derivedIdle)},
		rule{o.unmet != string(ipamv1alpha1.UnmetWait) && o.unmet != string(ipamv1alpha1.UnmetRefuse),
			fmt.Sprintf("--default-unmet-policy is %q; give it Wait or Refuse", o.unmet)},
		rule{o.maxPools < 0, fmt.Sprintf(
			"--max-pools-per-workspace is %d; give it at least 1, or 0 for any number", o.maxPools)},
		rule{o.maxWaits < 0, fmt.Sprintf(
			"--max-waits-per-workspace is %d; give it at least 1, or 0 for any number", o.maxWaits)},
		rule{o.etcdTxnOps < 16, fmt.Sprintf("--etcd-max-txn-ops is %d; give it at least 16", o.etcdTxnOps)},
		rule{o.verify.Interval <= 0, fmt.Sprintf("--verify-interval is %s; give it more than 0", o.verify.Interval)},
		rule{o.history < 0, fmt.Sprintf("--history is %s; give it more than 0, or 0 to keep nothing", o.history)},
		rule{o.historyMax < 0, fmt.Sprintf(
			"--history-max-records is %d; give it at least 1, or 0 for no limit", o.historyMax)},
	), o.validateSweep(), o.validateEtcd(), o.validateMetrics(), o.webhooks.validate(o.standalone), o.traces.validate())
}

func (o *options) validateSweep() error {
	return check(
		rule{o.sweep.Interval == 0, "--sweep-interval is 0; give it more than 0"},
		rule{o.sweep.MinAge <= 0, fmt.Sprintf("--orphan-min-age is %s; give it more than 0", o.sweep.MinAge)},
		rule{o.sweep.MaxFrees < 0, fmt.Sprintf(
			"--sweep-max-frees is %d; give it at least 1, or 0 to free none", o.sweep.MaxFrees)},
		rule{!isShare(o.sweep.MaxShare), fmt.Sprintf(
			"--sweep-max-share is %v; give it a share from 0 to 1", o.sweep.MaxShare)},
	)
}

// isShare reports whether n is a number from 0 to 1.
func isShare(n float64) bool { return n >= 0 && n <= 1 }

// sweeping returns the options of the sweep. A flag of 0 becomes a limit below 0, because package sweep takes 0 for its
// default.
func (o *options) sweeping() sweep.Options {
	limited := o.sweep
	if limited.MaxFrees == 0 {
		limited.MaxFrees = -1
	}
	if limited.MaxShare == 0 {
		limited.MaxShare = -1
	}
	return limited
}

func (o *options) validateEtcd() error {
	external := len(o.etcdServers) > 0
	return errors.Join(check(
		rule{!strings.HasPrefix(o.etcdPrefix, "/") || strings.HasSuffix(o.etcdPrefix, "/"),
			fmt.Sprintf("--etcd-prefix is %q; begin it with a slash and don't end it with one", o.etcdPrefix)},
		rule{!external && o.etcdServers != nil,
			"--etcd-servers is empty; name the URLs of an etcd, or leave it out for the embedded one"},
		rule{!external && o.etcdDataDir == "", "name a --etcd-data-dir, or --etcd-servers"},
		rule{!external && (o.etcdCAFile != "" || o.etcdCertFile != "" || o.etcdKeyFile != ""),
			"--etcd-cafile, --etcd-certfile and --etcd-keyfile go with --etcd-servers"},
		rule{o.etcdListen != "" && !localURL(o.etcdListen),
			fmt.Sprintf("--etcd-listen-client-url is %q; give it a socket, unix:///path, or a loopback address, "+
				"such as http://127.0.0.1:2379", o.etcdListen)},
		rule{external && o.etcdListen != "",
			"--etcd-listen-client-url is for the embedded etcd; leave it out with --etcd-servers"},
		rule{(o.etcdCertFile == "") != (o.etcdKeyFile == ""), "--etcd-certfile and --etcd-keyfile go together"},
		rule{o.election.on && !external, "--leader-elect needs --etcd-servers: an embedded etcd serves one replica"},
	), o.election.validate())
}

func (o *options) validateMetrics() error {
	return check(
		rule{(o.metricsCertFile == "") != (o.metricsKeyFile == ""), "--metrics-certfile and --metrics-keyfile go together"},
		rule{o.metricsClientCAFile != "" && o.metricsCertFile == "",
			"--metrics-client-cafile needs --metrics-certfile: clients show their certificates by TLS only"},
	)
}

// localURL reports whether a URL is a socket or a loopback address of this machine.
func localURL(text string) bool {
	u, err := url.Parse(text)
	if err != nil {
		return false
	}
	if u.Scheme == "unix" {
		return u.Path != ""
	}
	at, err := netip.ParseAddrPort(u.Host)
	return err == nil && u.Scheme == "http" && at.Addr().IsLoopback()
}
