package allocator

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
)

// The words that transactions are written in.

func at(key string, revision int64) clientv3.Cmp {
	return clientv3.Compare(clientv3.ModRevision(key), "=", revision)
}

func absent(key string) clientv3.Cmp            { return at(key, 0) }
func get(key string) clientv3.Op                { return clientv3.OpGet(key) }
func put(key, value string) clientv3.Op         { return clientv3.OpPut(key, value) }
func remove(key string) clientv3.Op             { return clientv3.OpDelete(key) }
func writes(op clientv3.Op) bool                { return op.IsPut() || op.IsDelete() }
func together(ops ...clientv3.Op) []clientv3.Op { return ops }
func every(cmps ...clientv3.Cmp) []clientv3.Cmp { return cmps }

// results are the answers to the operations of a transaction, in their order.
type results []*etcdserverpb.ResponseOp

// found is what a get read; nil if there was no such key.
func (r results) found(i int) *mvccpb.KeyValue {
	if i >= len(r) {
		return nil
	}
	kvs := r[i].GetResponseRange().GetKvs()
	if len(kvs) == 0 {
		return nil
	}
	return kvs[0]
}

// ledgerID reads the ledger's ID, and makes one if the ledger is new.
func (a *Allocator) ledgerID(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, a.hooks.timeout)
	defer cancel()
	key, id := a.keys.ledger(), rand.Text()
	resp, err := a.client.Txn(ctx).
		If(absent(key)).
		Then(put(key, encode(ledgerValue{V: valueVersion, ID: id}))).
		Else(get(key)).
		Commit()
	if err != nil {
		return "", unavailable(err)
	}
	if resp.Succeeded {
		return id, nil
	}
	var v ledgerValue
	err = decode(key, results(resp.Responses).found(0).Value, &v)
	return v.ID, err
}

// read gets one key as of now, or as of a revision.
func (a *Allocator) read(ctx context.Context, key string, opts ...clientv3.OpOption) (*mvccpb.KeyValue, int64, error) {
	ctx, cancel := context.WithTimeout(ctx, a.hooks.timeout)
	defer cancel()
	resp, err := a.client.Get(ctx, key, opts...)
	if err != nil {
		return nil, 0, unavailable(err)
	}
	if len(resp.Kvs) == 0 {
		return nil, resp.Header.Revision, nil
	}
	return resp.Kvs[0], resp.Header.Revision, nil
}

// unavailable says in plain words what a failed request to etcd means.
func unavailable(err error) error {
	if words := explain(err); words != "" {
		return fmt.Errorf("%w: %s: %w", ErrUnavailable, words, err)
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

func explain(err error) string {
	switch {
	case is(err, rpctypes.ErrNoSpace):
		return "etcd's database is full (NOSPACE): compact and defragment it, or raise its quota, then disarm the alarm"
	case is(err, rpctypes.ErrCorrupt):
		return "etcd reports a corrupt member: replace that member"
	case is(err, rpctypes.ErrPermissionDenied):
		return "the etcd user may not read and write the ledger's keys: grant readwrite on its prefix"
	case is(err, rpctypes.ErrUserEmpty, rpctypes.ErrAuthFailed, rpctypes.ErrInvalidAuthToken, rpctypes.ErrAuthOldRevision):
		return "etcd refused the credentials"
	case is(err, rpctypes.ErrNoLeader, rpctypes.ErrLeaderChanged, rpctypes.ErrTimeoutDueToLeaderFail):
		return "etcd has no leader at the moment"
	case errors.Is(err, context.DeadlineExceeded), is(err, rpctypes.ErrTimeout, rpctypes.ErrTimeoutDueToConnectionLost):
		return "etcd did not answer in time"
	}
	return ""
}

// is reports whether err is one of etcd's errors, whether it came over the
// network or from a server in this process.
func is(err error, any ...error) bool {
	for _, target := range any {
		if errors.Is(rpctypes.Error(err), target) {
			return true
		}
	}
	return false
}

// refused reports whether etcd refused a transaction before it could happen.
// NOSPACE is not among these: etcd answers so, too, for the last transaction
// that still went in.
func refused(err error) bool {
	if is(err, rpctypes.ErrTooManyRequests) {
		return true
	}
	var answer rpctypes.EtcdError
	if !errors.As(rpctypes.Error(err), &answer) {
		return false
	}
	switch answer.Code() {
	case codes.InvalidArgument, codes.PermissionDenied, codes.Unauthenticated:
		return true
	default:
		return false
	}
}

// tooLarge reports whether etcd refused a transaction for its size.
func tooLarge(err error) bool {
	return is(err, rpctypes.ErrTooManyOps, rpctypes.ErrRequestTooLarge)
}
