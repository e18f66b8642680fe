package embedetcd

import (
	"context"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// gate lets requests in until it is closed. When etcd stops, it waits for requests that came over the network, but not
// for requests of its own process. Without the gate, a read of this process would find the file closed, and panic. A
// gate is safe for concurrent use.
type gate struct {
	pb.KVServer

	mu     sync.RWMutex // each request holds it for reading, close for writing
	closed bool
}

// close refuses further requests, and waits for those that are under way.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}

// pass calls the server, unless the gate is closed.
func pass[Q, R any](
	ctx context.Context, g *gate, call func(context.Context, Q) (R, error), request Q,
) (response R, err error) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if g.closed {
		return response, rpctypes.ErrGRPCStopped
	}
	return call(ctx, request)
}

// Range implements pb.KVServer.
func (g *gate) Range(ctx context.Context, request *pb.RangeRequest) (*pb.RangeResponse, error) {
	return pass(ctx, g, g.KVServer.Range, request)
}

// Put implements pb.KVServer.
func (g *gate) Put(ctx context.Context, request *pb.PutRequest) (*pb.PutResponse, error) {
	return pass(ctx, g, g.KVServer.Put, request)
}

// DeleteRange implements pb.KVServer.
func (g *gate) DeleteRange(ctx context.Context, request *pb.DeleteRangeRequest) (*pb.DeleteRangeResponse, error) {
	return pass(ctx, g, g.KVServer.DeleteRange, request)
}

// Txn implements pb.KVServer.
func (g *gate) Txn(ctx context.Context, request *pb.TxnRequest) (*pb.TxnResponse, error) {
	return pass(ctx, g, g.KVServer.Txn, request)
}

// Compact implements pb.KVServer.
func (g *gate) Compact(ctx context.Context, request *pb.CompactionRequest) (*pb.CompactionResponse, error) {
	return pass(ctx, g, g.KVServer.Compact, request)
}
