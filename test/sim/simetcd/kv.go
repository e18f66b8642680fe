package simetcd

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

var _ pb.KVClient = (*Link)(nil)

// Range implements pb.KVClient.
func (l *Link) Range(ctx context.Context, r *pb.RangeRequest, _ ...grpc.CallOption) (*pb.RangeResponse, error) {
	return do[*pb.RangeResponse](ctx, l, r)
}

// Put implements pb.KVClient.
func (l *Link) Put(ctx context.Context, r *pb.PutRequest, _ ...grpc.CallOption) (*pb.PutResponse, error) {
	return do[*pb.PutResponse](ctx, l, r)
}

// DeleteRange implements pb.KVClient.
func (l *Link) DeleteRange(
	ctx context.Context, r *pb.DeleteRangeRequest, _ ...grpc.CallOption,
) (*pb.DeleteRangeResponse, error) {
	return do[*pb.DeleteRangeResponse](ctx, l, r)
}

// Txn implements pb.KVClient.
func (l *Link) Txn(ctx context.Context, r *pb.TxnRequest, _ ...grpc.CallOption) (*pb.TxnResponse, error) {
	return do[*pb.TxnResponse](ctx, l, r)
}

// Compact implements pb.KVClient.
func (l *Link) Compact(
	ctx context.Context, r *pb.CompactionRequest, _ ...grpc.CallOption,
) (*pb.CompactionResponse, error) {
	return do[*pb.CompactionResponse](ctx, l, r)
}
