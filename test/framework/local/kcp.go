package local

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// userCount is how many users a kcp has besides its own admin.
const userCount = 1000

// KCP is a kcp server with everything in one process: an etcd, the API server and
// the virtual workspaces.
type KCP struct {
	process
	people
	dir   string
	store string // where its etcd listens
	moved bool   // the data names the server's former port
}

// NewKCP returns a kcp that keeps its data, its logs and its admin.kubeconfig in dir,
// which is made if missing. Data of an earlier run is taken up. The server is not
// started yet.
func NewKCP(ctx context.Context, dir string) (*KCP, error) {
	binary, err := built("kcp", "kcp")
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	ports, moved, err := steadyPorts(ctx, filepath.Join(dir, "ports"), 3)
	if err != nil {
		return nil, err
	}
	tokens := filepath.Join(dir, "tokens.csv")
	known, err := users(tokens, userCount)
	if err != nil {
		return nil, err
	}
	return &KCP{
		dir: dir, store: "https://localhost:" + strconv.Itoa(ports[1]), moved: moved, people: people{known: known, admin: filepath.Join(dir, "admin.kubeconfig")},
		process: process{
			name: "kcp",
			log:  filepath.Join(dir, "kcp.log"),
			args: []string{
				binary, "start",
				"--root-directory=" + dir,
				"--bind-address=127.0.0.1", "--external-hostname=127.0.0.1",
				"--secure-port=" + strconv.Itoa(ports[0]),
				"--embedded-etcd-client-port=" + strconv.Itoa(ports[1]),
				"--embedded-etcd-peer-port=" + strconv.Itoa(ports[2]),
				"--token-auth-file=" + tokens,
				"--feature-gates=CacheAPIs=true",
				// Without this flag, a stop waits a minute for watches that nobody ends.
				"--shutdown-watch-termination-grace-period=1s",
			},
		},
	}, nil
}

// Start starts the server and returns when it is ready.
func (k *KCP) Start(ctx context.Context) error {
	if k.moved {
		// When kcp notes its new address, it has already published the old one in the endpoint slices of the APIExports.
		// The next start puts that right.
		k.moved = false
		if err := k.Start(ctx); err != nil {
			return err
		}
		if err := k.Stop(); err != nil {
			return err
		}
	}
	if err := k.start(); err != nil {
		return err
	}
	return k.await(ctx, func(ctx context.Context) error { return ready(ctx, k.admin) })
}

// Store returns a client of the etcd in which the server keeps its objects. While that etcd is away, the client
// waits. Close the client.
func (k *KCP) Store() (*clientv3.Client, error) {
	secrets := filepath.Join(k.StoreDir(), "secrets")
	secure, err := transport.TLSInfo{
		CertFile:           filepath.Join(secrets, "client", "cert.pem"),
		KeyFile:            filepath.Join(secrets, "client", "key.pem"),
		InsecureSkipVerify: true, // kcp makes itself a new authority whenever it starts
	}.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("the etcd of kcp: %w", err)
	}
	return clientv3.New(clientv3.Config{
		Endpoints: []string{k.store}, TLS: secure, Logger: zap.NewNop(),
		DialKeepAliveTime: 5 * time.Second, DialKeepAliveTimeout: 2 * time.Second,
	})
}

// StoreDir returns the folder of the server's etcd. The folder may be exchanged while the server does not run.
func (k *KCP) StoreDir() string { return filepath.Join(k.dir, "etcd-server") }

// KCPVersion returns the version that the server was built from.
func KCPVersion() string {
	const unknown = "of unknown version"
	binary, err := built("kcp", "kcp")
	if err != nil {
		return unknown
	}
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return unknown
	}
	return info.Main.Version
}
