package embedetcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	"go.etcd.io/etcd/server/v3/proxy/grpcproxy/adapter"
)

const (
	defaultQuota     = 8 << 30
	defaultMaxTxnOps = 2048
	maxRequestBytes  = 4 << 20
	name             = "ipam"
	dirMode          = 0o700

	// snapshotCount bounds the transactions that a start reads again from the log. catchUpEntries bounds those that stay
	// in memory. etcd's defaults are 10,000 and 5,000, for members that lag behind. This etcd has no other member, and a
	// transaction may have a megabyte.
	snapshotCount  = 1000
	catchUpEntries = 100
)

// nowhere is a placeholder for the peer URL and the client URL of the only member. Nothing connects to it.
var nowhere = url.URL{Scheme: "http", Host: "127.0.0.1:0"}

// Options configure a Server.
type Options struct {
	// Dir is the data directory. It is made if missing, and must be on local
	// disk. Required.
	Dir string
	// QuotaBytes bounds the database file. When the file is full, writes fail, and reads go on. Writes succeed again when
	// history that is a minute old was dropped, and the file was defragmented. Default 8 GiB, enough for about ten million
	// blocks.
	QuotaBytes int64
	// MaxTxnOps is how many operations a transaction may have. Give the same number to the allocator: it makes its groups
	// as large. Default 2048.
	MaxTxnOps int
	// Listen is a URL for etcd's own tools, to take snapshots: unix:///path of a socket, or http:// with an address of
	// this machine. Any client that reaches the URL may read and write everything. Default: none.
	Listen string
	// NoFsync leaves writing to the operating system: a power cut then loses writes that were answered. For tests only.
	NoFsync bool
	// Logger receives etcd's errors. Default slog.Default().
	Logger *slog.Logger
}

// Server is a running etcd. Its methods are safe for concurrent use.
type Server struct {
	options Options
	etcd    *embed.Etcd
	client  *clientv3.Client
	gate    *gate // before the client's requests
	lock    *os.File
	faults  *faults

	stop       context.CancelFunc
	goroutines sync.WaitGroup
	closing    sync.Once

	// Only maintain uses these.
	nearlyFull bool // the file is nearly full, as of the last round
	compaction compaction
}

// Start runs a server on the data in Dir, and returns when the server answers. It fails, and says why, if another
// process uses the directory, if the directory cannot be written, or if the data is damaged.
func Start(ctx context.Context, options Options) (*Server, error) {
	options.QuotaBytes = cmp.Or(options.QuotaBytes, defaultQuota)
	options.MaxTxnOps = cmp.Or(options.MaxTxnOps, defaultMaxTxnOps)
	options.Logger = cmp.Or(options.Logger, slog.Default())
	if options.Dir == "" {
		return nil, errors.New("start etcd: no data directory is given")
	}
	lock, err := lockDir(options.Dir)
	if err != nil {
		return nil, fmt.Errorf("start etcd: %w", err)
	}
	s := &Server{options: options, lock: lock, faults: newFaults(options.Logger)}
	if err := s.start(ctx); err != nil {
		s.faults.mute()
		return nil, errors.Join(fmt.Errorf("start etcd in %s: %w", options.Dir, err), unlock(lock))
	}
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	s.goroutines.Go(func() { s.maintain(background) })
	return s, nil
}

// start runs etcd, in a goroutine of its own. When etcd cannot go on, its fatal log line ends that goroutine (see
// faults), instead of the process. etcd cannot be stopped while it opens the data, so start notices only afterwards
// that ctx has ended.
func (s *Server) start(ctx context.Context) error {
	config, err := s.config()
	if err != nil {
		return err
	}
	started := make(chan struct{})
	go func() {
		defer close(started)
		s.etcd, err = embed.StartEtcd(config)
	}()
	select {
	case <-started:
	case <-s.faults.first:
		return s.faults.err()
	}
	if s.etcd == nil {
		return cmp.Or(s.faults.err(), plain("open the data", err))
	}
	select {
	case <-s.etcd.Server.ReadyNotify():
	case <-s.faults.first:
		return s.faults.err()
	case <-ctx.Done():
		s.etcd.Close()
		return context.Cause(ctx)
	}
	s.client = v3client.New(s.etcd.Server)
	s.gate = &gate{KVServer: v3rpc.NewQuotaKVServer(s.etcd.Server)}
	s.client.KV = clientv3.NewKVFromKVClient(adapter.KvServerToKvClient(s.gate), s.client)
	return nil
}

func (s *Server) config() (*embed.Config, error) {
	c := embed.NewConfig()
	c.Name, c.Dir = name, s.options.Dir
	// The one member needs an address in its records, although no other member uses it.
	c.AdvertisePeerUrls, c.AdvertiseClientUrls = []url.URL{nowhere}, []url.URL{nowhere}
	c.ListenPeerUrls, c.ListenClientUrls = nil, nil
	if s.options.Listen != "" {
		listen, err := url.Parse(s.options.Listen)
		if err != nil {
			return nil, fmt.Errorf("listen for etcd's tools: %w", err)
		}
		c.ListenClientUrls = []url.URL{*listen}
	}
	c.InitialCluster = c.InitialClusterFromName(name)
	c.TickMs, c.ElectionMs = 20, 100 // a single member elects itself; each tick wakes an idle process
	c.SnapshotCount, c.SnapshotCatchUpEntries = snapshotCount, catchUpEntries
	c.QuotaBackendBytes = s.options.QuotaBytes
	c.MaxTxnOps, c.MaxRequestBytes = uint(s.options.MaxTxnOps), maxRequestBytes
	c.UnsafeNoFsync = s.options.NoFsync
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(s.faults.zap())
	return c, nil
}

// Client returns a client of the server. The client ends with the Server: later calls fail with rpctypes.ErrStopped.
func (s *Server) Client() *clientv3.Client { return s.client }

// MaxTxnOps is how many operations a transaction may have.
func (s *Server) MaxTxnOps() int { return s.options.MaxTxnOps }

// Failed returns a channel that is closed when the server cannot go on, because the disk is full or broken, or the data
// is damaged. Err then says what happened. Close the server, and end the process.
func (s *Server) Failed() <-chan struct{} { return s.faults.first }

// Err is why the server failed; nil if it did not.
func (s *Server) Err() error { return s.faults.err() }

// Close stops the server when the writes in flight are done. Afterwards the data directory can be used again. A server
// that has failed cannot be stopped: then only another process can use the directory.
func (s *Server) Close() error {
	var err error
	s.closing.Do(func() {
		s.stop()
		s.goroutines.Wait()
		if err = s.client.Close(); errors.Is(err, context.Canceled) {
			err = nil // that is how this client says that it is closed
		}
		if s.Err() == nil {
			s.gate.close()
			s.etcd.Close()
			awaitForks()
		}
		s.faults.mute()
		err = errors.Join(err, unlock(s.lock))
	})
	return err
}
