package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/go-logr/logr"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kcp-ipam/ipam/allocator/embedetcd"
)

// store is the etcd that has the ledger.
type store struct {
	client *clientv3.Client
	txnOps int
	// failed is closed when the store cannot go on. That of an external etcd is never closed: the process waits until etcd
	// is back.
	failed <-chan struct{}
	err    func() error
	// snapshot writes a copy of the whole etcd.
	snapshot taker
	io.Closer
}

// openStore starts the embedded etcd, or connects to the external one.
func openStore(ctx context.Context, opts *options) (*store, error) {
	if len(opts.etcdServers) == 0 {
		return startEtcd(ctx, opts)
	}
	return dialEtcd(ctx, opts)
}

// openPresent opens a store that must exist: it fails if the data directory of an embedded etcd is missing.
func (o *options) openPresent(ctx context.Context) (*store, error) {
	if _, missing := os.Stat(o.etcdDataDir); len(o.etcdServers) == 0 && missing != nil {
		return nil, fmt.Errorf("--etcd-data-dir: there is no ledger: %w", missing)
	}
	return openStore(ctx, o)
}

func startEtcd(ctx context.Context, opts *options) (*store, error) {
	server, err := embedetcd.Start(ctx, embedetcd.Options{
		Dir:    opts.etcdDataDir,
		Listen: opts.etcdListen,
		Logger: slog.New(logr.ToSlogHandler(log.FromContext(ctx).WithName("etcd"))),
	})
	if err != nil {
		return nil, fmt.Errorf("--etcd-data-dir %s: %w", opts.etcdDataDir, err)
	}
	return &store{
		client: server.Client(), txnOps: server.MaxTxnOps(),
		failed: server.Failed(), err: server.Err, snapshot: server.Snapshot, Closer: server,
	}, nil
}

// etcdConfig returns the configuration of a client of the external etcd.
func (o *options) etcdConfig(ctx context.Context) (clientv3.Config, error) {
	cfg := clientv3.Config{
		Endpoints:            o.etcdServers,
		DialTimeout:          5 * time.Second,
		DialKeepAliveTime:    10 * time.Second,
		DialKeepAliveTimeout: 5 * time.Second,
		Logger:               zap.NewNop(), // faults are returned as errors
		Context:              context.WithoutCancel(ctx),
	}
	if files, ok := o.etcdFiles(); ok {
		if err := files.check(); err != nil {
			return cfg, fmt.Errorf("--etcd-cafile, --etcd-certfile, --etcd-keyfile: %w", err)
		}
		cfg.DialOptions = []grpc.DialOption{grpc.WithTransportCredentials(files)}
	}
	return cfg, nil
}

func dialEtcd(ctx context.Context, opts *options) (*store, error) {
	cfg, err := opts.etcdConfig(ctx)
	if err != nil {
		return nil, err
	}
	client, err := clientv3.New(cfg)
	if err != nil {
		return nil, fmt.Errorf("--etcd-servers %v: %w", opts.etcdServers, err)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if _, err := client.Get(ctx, opts.etcdPrefix, clientv3.WithCountOnly()); err != nil {
		return nil, errors.Join(fmt.Errorf("--etcd-servers %v: %w", opts.etcdServers, err), client.Close())
	}
	take := func(ctx context.Context, to io.Writer) error { return snapshot(ctx, client, to) }
	return &store{
		client: client, txnOps: opts.etcdTxnOps, err: func() error { return nil }, snapshot: take, Closer: client,
	}, nil
}
