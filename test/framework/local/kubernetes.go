package local

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
	etcdsnapshot "go.etcd.io/etcd/client/v3/snapshot"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator/embedetcd"
	"github.com/kcp-ipam/ipam/workspaces"
)

// serviceRange contains the cluster IPs of Services; ServiceAddress is one of these. There is no kube-proxy. The IPs
// are loopback addresses, so a program can listen at them.
const (
	serviceRange   = "127.96.0.0/24"
	ServiceAddress = "127.96.0.9"
)

// kubeControllers are the controllers of Kubernetes that matter without nodes: they empty namespaces,
// collect garbage, make service accounts, and add roles to view, edit and admin.
var kubeControllers = []string{
	"namespace-controller", "garbage-collector-controller", "serviceaccount-controller", "clusterrole-aggregation-controller",
}

// Kubernetes is a cluster without kcp and without nodes: an API server, an etcd inside of this process, and
// the controllers of Kubernetes that clean up.
type Kubernetes struct {
	people
	dir         string
	listen      string // where the etcd listens
	etcd        *embedetcd.Server
	api         *server
	controllers *server
}

// NewKubernetes returns a cluster that keeps its data, its logs and its admin.kubeconfig in dir, which is
// made if missing. Data of an earlier run is taken up. Nothing is started yet.
func NewKubernetes(ctx context.Context, dir string) (*Kubernetes, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	ports, _, err := steadyPorts(ctx, filepath.Join(dir, "ports"), 3)
	if err != nil {
		return nil, err
	}
	tokens := filepath.Join(dir, "tokens.csv")
	staff := []User{{Name: "admin", Group: masters}, {Name: "system:kube-controller-manager"}}
	known, err := users(tokens, userCount, staff...)
	if err != nil {
		return nil, err
	}
	k := &Kubernetes{
		dir: dir, listen: "http://" + address(ports[0]),
		people: people{known: known[len(staff):], admin: filepath.Join(dir, "admin.kubeconfig"), alone: true},
	}
	for i, name := range []string{"admin", "controllers"} {
		if err := k.grant(name, url(ports[1]), known[i]); err != nil {
			return nil, err
		}
	}
	if err := k.keys(); err != nil {
		return nil, err
	}
	if k.api, err = k.apiServer(ports[1], tokens); err != nil {
		return nil, err
	}
	k.controllers, err = k.controllerManager(ports[2])
	return k, err
}

func (k *Kubernetes) file(name string) string { return filepath.Join(k.dir, name) }

// grant stores name.kubeconfig, the access of a user to the API server. It names the certificate that the server
// makes at its first start.
func (k *Kubernetes) grant(name, at string, user User) error {
	const context = "kubernetes"
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters[context] = &clientcmdapi.Cluster{Server: at, CertificateAuthority: k.file("apiserver.crt")}
	kubeconfig.AuthInfos[context] = &clientcmdapi.AuthInfo{Token: user.Token}
	kubeconfig.Contexts[context] = &clientcmdapi.Context{Cluster: context, AuthInfo: context}
	kubeconfig.CurrentContext = context
	return clientcmd.WriteToFile(*kubeconfig, k.file(name+".kubeconfig"))
}

// keys makes the key that signs the tokens of service accounts, unless it is there.
func (k *Kubernetes) keys() error {
	if _, err := os.Stat(k.file("accounts.key")); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	accounts, err := newAuthority("service accounts")
	if err != nil {
		return err
	}
	return os.WriteFile(k.file("accounts.key"), accounts.key, 0o600)
}

func (k *Kubernetes) apiServer(port int, tokens string) (*server, error) {
	binary, err := built("kube-apiserver", "kube")
	if err != nil {
		return nil, err
	}
	return &server{
		access: k.Kubeconfig(),
		process: process{name: "kube-apiserver", log: k.file("apiserver.log"), args: []string{
			binary,
			flag("etcd-servers", k.listen),
			flag("bind-address", "127.0.0.1"), flag("advertise-address", "127.0.0.1"), flag("secure-port", port),
			flag("cert-dir", k.dir),
			flag("token-auth-file", tokens), flag("authorization-mode", "RBAC"),
			flag("service-account-issuer", "https://kubernetes.default.svc"),
			flag("service-account-key-file", k.file("accounts.key")),
			flag("service-account-signing-key-file", k.file("accounts.key")),
			flag("service-cluster-ip-range", serviceRange),
			// The endpoint of the Service kubernetes may not be a loopback address.
			flag("endpoint-reconciler-type", "none"),
		}},
	}, nil
}

func (k *Kubernetes) controllerManager(port int) (*server, error) {
	binary, err := built("kube-controller-manager", "kube")
	if err != nil {
		return nil, err
	}
	access := k.file("controllers.kubeconfig")
	return &server{
		access: access,
		process: process{name: "kube-controller-manager", log: k.file("controllers.log"), args: []string{
			binary,
			flag("kubeconfig", access),
			flag("bind-address", "127.0.0.1"), flag("secure-port", port), flag("cert-dir", k.file("controllers")),
			flag("controllers", strings.Join(kubeControllers, ",")),
			flag("use-service-account-credentials", true),
			flag("leader-elect", false),
		}},
	}, nil
}

// Start starts everything and returns when the API server is ready and the controllers work.
func (k *Kubernetes) Start(ctx context.Context) (err error) {
	k.etcd, err = embedetcd.Start(ctx, embedetcd.Options{
		Dir: k.file("etcd"), Listen: k.listen,
		NoFsync: true,                          // the data is of no use after a power cut
		Logger:  slog.New(slog.DiscardHandler), // it complains when it is closed
	})
	if err != nil {
		return err
	}
	if err := k.api.boot(ctx); err != nil {
		return err
	}
	if err := k.controllers.start(); err != nil {
		return err
	}
	return k.controllers.await(ctx, k.cleaned)
}

// cleaned returns an error until the controllers have made their first objects.
func (k *Kubernetes) cleaned(ctx context.Context) error {
	cfg, err := k.Admin()
	if err != nil {
		return err
	}
	c, err := workspaces.NewClient(cfg)
	if err != nil {
		return err
	}
	return c.Get(ctx, client.ObjectKey{Namespace: corev1.NamespaceDefault, Name: "default"}, &corev1.ServiceAccount{})
}

// Stop ends everything that was started: the API server in good order, after the controllers, which keep nothing.
func (k *Kubernetes) Stop() error {
	err := errors.Join(k.controllers.Kill(), k.api.Stop())
	if k.etcd == nil {
		return err
	}
	return errors.Join(err, k.etcd.Close())
}

// Ended returns a channel that is closed when the API server has ended. The server must have been started.
func (k *Kubernetes) Ended() <-chan struct{} { return k.api.Ended() }

// Log returns the path of the API server's log.
func (k *Kubernetes) Log() string { return k.api.log }

// Save stores a snapshot of all objects in a file, while the cluster runs.
func (k *Kubernetes) Save(ctx context.Context, file string) error {
	_, err := etcdsnapshot.SaveWithVersion(ctx, zap.NewNop(), clientv3.Config{Endpoints: []string{k.listen}}, file)
	return err
}

// Restore replaces all objects by those of a snapshot, while the cluster does not run. The revision is raised by
// raise, so that clients notice; 0: it is not raised.
func (k *Kubernetes) Restore(file string, raise uint64) error {
	if err := os.RemoveAll(k.file("etcd")); err != nil {
		return err
	}
	const member, peer = "restored", "http://localhost:2380"
	return snapshot.NewV3(zap.NewNop()).Restore(snapshot.RestoreConfig{
		SnapshotPath: file, OutputDataDir: k.file("etcd"), Name: member, PeerURLs: []string{peer},
		InitialCluster: member + "=" + peer, InitialClusterToken: "etcd-cluster",
		RevisionBump: raise, MarkCompacted: raise > 0,
	})
}
