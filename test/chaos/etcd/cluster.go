package etcd

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// Options configure a Cluster.
type Options struct {
	// Dir holds data, configurations and logs. It must exist.
	Dir string
	// Members is their number. Default 1.
	Members int
	// MaxTxnOps is the setting --max-txn-ops of etcd. Default: 128, as in etcd.
	MaxTxnOps int
	// Fsync makes the members sync to disk. Without it, a power cut could lose what was answered, but the end of a
	// process could not.
	Fsync bool
	// TLS are the certificates by which members and clients know each other.
	// Default: none, clients are not encrypted.
	TLS *transport.TLSInfo
	// Peer, if not nil, is called with the address at which a member listens to the other members, and returns the
	// address at which they reach it. Default: the same address.
	Peer func(member int, listens string) (reached string, err error)
}

// Cluster is a cluster of etcd, whose members are processes.
type Cluster struct {
	Members []*Member
	tls     *transport.TLSInfo
}

// Member is one process of a Cluster.
type Member struct {
	Process
	Name string
	// Addr is where the member listens to clients, as host:port.
	Addr string
	url  string // Addr as a URL
	log  *os.File
}

// New makes a cluster and starts its members. It returns when the cluster
// answers. Close it, also after an error.
func New(ctx context.Context, options Options) (*Cluster, error) {
	options.Members = max(options.Members, 1)
	if options.MaxTxnOps == 0 {
		options.MaxTxnOps = 128
	}
	c := &Cluster{tls: options.TLS}
	binary, err := build(ctx, options.Dir)
	if err != nil {
		return c, err
	}
	if err := c.make(options, binary); err != nil {
		return c, err
	}
	for _, m := range c.Members {
		if _, err := m.Start(); err != nil {
			return c, err
		}
	}
	return c, c.Ready(ctx)
}

// build compiles the program of a member.
func build(ctx context.Context, dir string) (string, error) {
	binary := filepath.Join(dir, "member")
	out, err := exec.CommandContext(ctx, "go", "build", "-o", binary, "github.com/kcp-ipam/ipam/test/chaos/etcd/member").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the member: %w\n%s", err, out)
	}
	return binary, nil
}

// make writes the configurations of the members.
func (c *Cluster) make(options Options, binary string) error {
	var listens, reached, initial []string
	for i := range options.Members {
		peer, err := freeAddr()
		if err != nil {
			return err
		}
		outside := peer
		if options.Peer != nil {
			if outside, err = options.Peer(i, peer); err != nil {
				return err
			}
		}
		listens, reached = append(listens, peer), append(reached, outside)
		initial = append(initial, fmt.Sprintf("m%d=http://%s", i, outside))
	}
	for i := range options.Members {
		m := &Member{Name: fmt.Sprint("m", i)}
		var err error
		if m.Addr, err = freeAddr(); err != nil {
			return err
		}
		file := filepath.Join(options.Dir, m.Name+".json")
		client, security := "http://"+m.Addr, map[string]any{}
		if t := options.TLS; t != nil {
			client = "https://" + m.Addr
			security = map[string]any{"client-cert-auth": true, "cert-file": t.CertFile, "key-file": t.KeyFile, "trusted-ca-file": t.TrustedCAFile}
		}
		config, err := json.Marshal(map[string]any{
			"name": m.Name, "data-dir": filepath.Join(options.Dir, m.Name),
			"listen-peer-urls": "http://" + listens[i], "initial-advertise-peer-urls": "http://" + reached[i],
			"listen-client-urls": client, "advertise-client-urls": client, "client-transport-security": security,
			"initial-cluster": strings.Join(initial, ","), "initial-cluster-state": "new",
			"heartbeat-interval": 50, "election-timeout": 500,
			"max-txn-ops": options.MaxTxnOps, "max-request-bytes": 4 << 20, "quota-backend-bytes": 8 << 30,
			"unsafe-no-fsync": !options.Fsync, "log-level": "warn", "logger": "zap",
		})
		if err != nil {
			return err
		}
		m.url = client
		if err := os.WriteFile(file, config, 0o600); err != nil {
			return err
		}
		if m.log, err = os.Create(filepath.Join(options.Dir, m.Name+".log")); err != nil {
			return err
		}
		m.Args, m.Stdout, m.Stderr = []string{binary, file}, m.log, m.log
		c.Members = append(c.Members, m)
	}
	return nil
}

// freeAddr returns an address that nobody listens at.
func freeAddr() (string, error) {
	listen := net.ListenConfig{}
	l, err := listen.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// Ready returns when the cluster answers.
func (c *Cluster) Ready(ctx context.Context) error {
	client, err := c.dial()
	if err != nil {
		return err
	}
	for {
		once, cancel := context.WithTimeout(ctx, time.Second)
		_, err = client.Get(once, "ready")
		cancel()
		if err == nil {
			return client.Close()
		}
		if ctx.Err() != nil {
			return errors.Join(fmt.Errorf("the cluster does not answer: %w", err), client.Close())
		}
	}
}

// Addrs returns where the members listen to clients.
func (c *Cluster) Addrs() []string {
	addrs := make([]string, 0, len(c.Members))
	for _, m := range c.Members {
		addrs = append(addrs, m.Addr)
	}
	return addrs
}

// Flags returns the flags that make an ipam-controller keep its ledger in the cluster.
func (c *Cluster) Flags() []string {
	urls := make([]string, 0, len(c.Members))
	for _, m := range c.Members {
		urls = append(urls, m.url)
	}
	servers := "--etcd-servers=" + strings.Join(urls, ",")
	if c.tls == nil {
		return []string{servers}
	}
	return []string{servers, "--etcd-cafile=" + c.tls.TrustedCAFile, "--etcd-certfile=" + c.tls.CertFile, "--etcd-keyfile=" + c.tls.KeyFile}
}

// Dial returns a client of some addresses.
func Dial(addrs ...string) (*clientv3.Client, error) { return dial(addrs, nil) }

// dial returns a client of the cluster.
func (c *Cluster) dial() (*clientv3.Client, error) {
	if c.tls == nil {
		return dial(c.Addrs(), nil)
	}
	secure, err := c.tls.ClientConfig()
	if err != nil {
		return nil, err
	}
	return dial(c.Addrs(), secure)
}

func dial(addrs []string, secure *tls.Config) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{
		Endpoints: addrs, TLS: secure, DialTimeout: 2 * time.Second,
		DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 2 * time.Second,
		Logger: zap.NewNop(), MaxCallSendMsgSize: 8 << 20,
	})
}

// Close kills the members. Those that are paused end, too.
func (c *Cluster) Close() error {
	var errs []error
	for _, m := range c.Members {
		if m.exited != nil {
			errs = append(errs, m.Kill())
		}
		errs = append(errs, m.log.Close())
	}
	return errors.Join(errs...)
}
