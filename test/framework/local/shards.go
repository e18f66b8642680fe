package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// These are the names of the shards of a Shards, as kcp knows them.
const (
	RootShard  = "root"
	OtherShard = "other"
)

// Shards is a kcp of two shards, RootShard and OtherShard. It runs as the four processes of a production set-up:
//
//	users ──▶ front proxy ──▶ shard root ──▶ cache server
//	                    └───▶ shard other ─────┘
//
// Each shard has an etcd and the virtual workspaces inside. It starts over an empty
// folder; the shards can be killed and started again over their data.
type Shards struct {
	people
	cache, proxy *server
	cacheData    string
	shards       map[string]*server
}

// server is one of the processes, and a kubeconfig of its admin.
type server struct {
	process
	access string
}

// NewShards returns a kcp of two shards that keeps all its files in dir, which is made. It is not started yet.
func NewShards(ctx context.Context, dir string) (*Shards, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	ports, err := freePorts(ctx, 10)
	if err != nil {
		return nil, err
	}
	tokens := filepath.Join(dir, "tokens.csv")
	known, err := users(tokens, userCount)
	if err != nil {
		return nil, err
	}
	f := &folder{dir: dir, tokens: tokens, proxy: ports[0]}
	if err := f.certify(); err != nil {
		return nil, err
	}
	s := &Shards{people: people{known: known, admin: f.file("admin.kubeconfig")}, cacheData: f.file("cache")}
	if s.cache, err = f.cacheServer(ports[1:4]); err != nil {
		return nil, err
	}
	root, err := f.shard(RootShard, ports[4:7])
	if err != nil {
		return nil, err
	}
	other, err := f.shard(OtherShard, ports[7:10])
	if err != nil {
		return nil, err
	}
	s.shards = map[string]*server{RootShard: root, OtherShard: other}
	s.proxy, err = f.frontProxy()
	return s, err
}

// Start starts the servers one after the other, and returns when all are ready. If the shards start side by side, the
// second one may become ready and yet take no workspace.
func (s *Shards) Start(ctx context.Context) error {
	for _, server := range []*server{s.cache, s.shards[RootShard], s.shards[OtherShard], s.proxy} {
		if err := server.boot(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Stop ends all servers at once, because their data is of no further use. It returns an error if a server has ended
// by itself.
func (s *Shards) Stop() error {
	return errors.Join(s.proxy.discard(), s.shards[OtherShard].discard(), s.shards[RootShard].discard(), s.cache.discard())
}

// KillShard ends a shard as a crash would.
func (s *Shards) KillShard(name string) error { return s.shards[name].Kill() }

// StartShard starts a shard that was killed, and returns when it is ready.
func (s *Shards) StartShard(ctx context.Context, name string) error { return s.shards[name].boot(ctx) }

// EmptyCache kills the cache server, starts it over without data, and returns when it is ready. A shard writes to it
// only when the shard starts what others have to know.
func (s *Shards) EmptyCache(ctx context.Context) error {
	return errors.Join(s.cache.Kill(), os.RemoveAll(s.cacheData), s.cache.boot(ctx))
}

// CacheFilled returns an error until the cache server has an APIExport, a webhook and a policy of RootShard.
func (s *Shards) CacheFilled(ctx context.Context) error {
	cfg, err := clientcmd.BuildConfigFromFlags("", s.cache.access)
	if err != nil {
		return err
	}
	c, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	for _, resource := range []string{
		"apis.kcp.io/v1alpha2/apiexports", "admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
		"admissionregistration.k8s.io/v1/validatingadmissionpolicies",
	} {
		list := &metav1.PartialObjectMetadataList{}
		body, err := c.RESTClient().Get().AbsPath("/services/cache/shards/" + RootShard + "/clusters/*/apis/" + resource).DoRaw(ctx)
		if err := errors.Join(err, json.Unmarshal(body, list)); err != nil {
			return fmt.Errorf("list %s of the cache server: %w", resource, err)
		}
		if len(list.Items) == 0 {
			return fmt.Errorf("the cache server has no %s", resource)
		}
	}
	return nil
}

// boot starts the process and returns when it is ready.
func (s *server) boot(ctx context.Context) error {
	if err := s.start(); err != nil {
		return err
	}
	return s.await(ctx, func(ctx context.Context) error { return ready(ctx, s.access) })
}

func (s *server) discard() error { return errors.Join(s.lost(), s.Kill()) }

// ready returns an error unless the server of a kubeconfig says that it is ready.
func ready(ctx context.Context, kubeconfig string) error {
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	cfg.Timeout = 5 * time.Second // another process may have the old port, and not answer
	c, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	return c.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
}

// url returns the URL of a server on this machine.
func url(port int) string { return "https://127.0.0.1:" + strconv.Itoa(port) }

// flag writes a flag of a program.
func flag(name string, value any) string { return fmt.Sprintf("--%s=%v", name, value) }
