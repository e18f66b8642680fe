package simetcd

import (
	"cmp"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// checkRange returns why a range cannot be read.
func (k *keyspace) checkRange(r *pb.RangeRequest) error {
	if r.SortOrder != pb.RangeRequest_NONE || r.SortTarget != pb.RangeRequest_KEY ||
		cmp.Or(r.MinModRevision, r.MaxModRevision, r.MinCreateRevision, r.MaxCreateRevision) != 0 {
		panic("simetcd: no sorted ranges, and no ranges by revision")
	}
	switch {
	case r.Revision > k.rev:
		return rpctypes.ErrGRPCFutureRev
	case r.Revision > 0 && r.Revision < k.compacted:
		return rpctypes.ErrGRPCCompacted
	}
	return nil
}

// list reads a range.
func (k *keyspace) list(r *pb.RangeRequest) (*pb.RangeResponse, error) {
	if len(r.Key) == 0 {
		return nil, rpctypes.ErrGRPCEmptyKey
	}
	if err := k.checkRange(r); err != nil {
		return nil, err
	}
	return k.page(r, k.rev), nil
}

// page reads a range that was checked. now is the current revision.
func (k *keyspace) page(r *pb.RangeRequest, now int64) *pb.RangeResponse {
	rev := now
	if r.Revision > 0 {
		rev = r.Revision
	}
	resp := &pb.RangeResponse{Header: header(now)}
	for _, name := range k.within(r.Key, r.RangeEnd) {
		v := k.at(name, rev)
		if v == nil {
			continue
		}
		resp.Count++
		switch {
		case r.CountOnly:
		case r.Limit > 0 && resp.Count > r.Limit:
			resp.More = true
		case r.KeysOnly:
			bare := *v
			bare.Value = nil
			resp.Kvs = append(resp.Kvs, &bare)
		default:
			resp.Kvs = append(resp.Kvs, v)
		}
	}
	return resp
}
