package store

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"go.etcd.io/etcd/api/v3/mvccpb"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// sliceValue is a record. slicesValue counts the given slices of a pool.
type (
	sliceValue struct {
		V       int               `json:"v"`
		Binding string            `json:"binding"`
		Child   ledger.PoolID     `json:"child,omitempty"`
		State   ledger.SliceState `json:"state"`
		Since   time.Time         `json:"since"`
	}
	slicesValue struct {
		V     int `json:"v"`
		Given int `json:"given"`
	}
)

// Slices reads and writes the records of the pools that give every workspace one block. It is safe
// for concurrent use.
type Slices struct{ *Store }

// sliceKeys is the prefix of the keys of one pool's records.
type sliceKeys string

func (s Slices) keys(id ledger.PoolID) sliceKeys {
	return sliceKeys(string(s.Keys) + "/slices/" + string(id) + "/")
}

func (k sliceKeys) head() string                       { return string(k) + "head" }
func (k sliceKeys) members() string                    { return string(k) + "members/" }
func (k sliceKeys) member(c ledger.ClusterName) string { return k.members() + string(c) }

// Get reads the record of a workspace, as of now. ok is false if there is none.
func (s Slices) Get(
	ctx context.Context, id ledger.PoolID, c ledger.ClusterName,
) (slice ledger.Slice, ok bool, err error) {
	kv, _, err := s.Store.Get(ctx, s.keys(id).member(c))
	if err != nil || kv == nil {
		return ledger.Slice{}, false, err
	}
	slice, err = decodeSlice(id, c, kv)
	return slice, err == nil, err
}

// List lists the records of a pool, as of one revision.
func (s Slices) List(ctx context.Context, id ledger.PoolID) ([]ledger.Slice, error) {
	var list []ledger.Slice
	from := s.keys(id).members()
	for kv, err := range s.NewPager(0).Keys(ctx, from, clientv3.GetPrefixRangeEnd(from)) {
		if err != nil {
			return nil, err
		}
		slice, err := decodeSlice(id, ledger.ClusterName(strings.TrimPrefix(string(kv.Key), from)), kv)
		if err != nil {
			return nil, err
		}
		list = append(list, slice)
	}
	return list, nil
}

// Change replaces the record of a workspace by the one that next returns. next gets the present record, and how many
// slices of the pool are given. A record without a state stands for no record. If another caller has written meanwhile,
// Change calls next again.
func (s Slices) Change(
	ctx context.Context, id ledger.PoolID, c ledger.ClusterName,
	next func(now ledger.Slice, given int) (ledger.Slice, error),
) error {
	for {
		done, err := s.change(ctx, id, c, next)
		if done || err != nil {
			return err
		}
	}
}

func (s Slices) change(
	ctx context.Context, id ledger.PoolID, c ledger.ClusterName,
	next func(ledger.Slice, int) (ledger.Slice, error),
) (done bool, err error) {
	head, member := s.keys(id).head(), s.keys(id).member(c)
	resp, err := s.Commit(ctx, nil, Ops(Get(head), Get(member)), nil)
	if err != nil {
		return false, err
	}
	var count slicesValue
	var revision int64
	if kv := Results(resp.Responses).Found(0); kv != nil {
		if revision, err = kv.ModRevision, decode(head, kv.Value, &count); err != nil {
			return false, err
		}
	}
	var now ledger.Slice
	if kv := Results(resp.Responses).Found(1); kv != nil {
		if now, err = decodeSlice(id, c, kv); err != nil {
			return false, err
		}
	}
	to, err := next(now, count.Given)
	if err != nil || encodeSlice(to) == encodeSlice(now) {
		return err == nil, err
	}
	write := Remove(member)
	if to.State != "" {
		write = Put(member, encodeSlice(to))
	}
	count = slicesValue{V: valueVersion, Given: count.Given + countOf(to) - countOf(now)}
	resp, err = s.Write(ctx, Cmps(At(head, revision)), Ops(write, Put(head, encode(count))), nil)
	return err == nil && resp.Succeeded, err
}

// countOf returns how many slices a record counts for.
func countOf(s ledger.Slice) int {
	if s.State == ledger.SliceGiven {
		return 1
	}
	return 0
}

// DeleteAll deletes all records of a pool, and the count of given slices.
func (s Slices) DeleteAll(ctx context.Context, id ledger.PoolID) error {
	_, err := s.Write(ctx, nil, Ops(clientv3.OpDelete(string(s.keys(id)), clientv3.WithPrefix())), nil)
	return err
}

func encodeSlice(s ledger.Slice) string {
	return encode(sliceValue{V: valueVersion, Binding: s.Binding, Child: s.Child, State: s.State, Since: s.Since.UTC()})
}

func decodeSlice(id ledger.PoolID, c ledger.ClusterName, kv *mvccpb.KeyValue) (ledger.Slice, error) {
	var v sliceValue
	if err := decode(string(kv.Key), kv.Value, &v); err != nil {
		return ledger.Slice{}, fmt.Errorf("slice of %s: %w", c, err)
	}
	return ledger.Slice{Pool: id, Cluster: c, Binding: v.Binding, Child: v.Child, State: v.State, Since: v.Since}, nil
}
