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

// sliceValue is a record, and slicesValue the fence of all records of a pool.
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

// SliceView is the record of a workspace and the fence of all records of the pool, as of one
// revision. A write with it succeeds only if the fence was not put since.
type SliceView struct {
	Slice  ledger.Slice // has pool and cluster even if there is no record
	Exists bool         // there is a record
	Given  int          // how many slices of the pool are given

	fence int64 // its revision; 0 if there is none
}

// Get reads the record of a workspace, as of now. ok is false if there is none.
func (s Slices) Get(ctx context.Context, id ledger.PoolID, c ledger.ClusterName) (slice ledger.Slice, ok bool, err error) {
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

// View reads the record of a workspace, and the fence.
func (s Slices) View(ctx context.Context, id ledger.PoolID, c ledger.ClusterName) (SliceView, error) {
	view := SliceView{Slice: ledger.Slice{Pool: id, Cluster: c}}
	fence := s.keys(id).head()
	resp, err := s.Commit(ctx, nil, Ops(Get(fence), Get(s.keys(id).member(c))), nil)
	if err != nil {
		return view, err
	}
	if kv := Results(resp.Responses).Found(0); kv != nil {
		var v slicesValue
		if err := decode(fence, kv.Value, &v); err != nil {
			return view, err
		}
		view.fence, view.Given = kv.ModRevision, v.Given
	}
	if kv := Results(resp.Responses).Found(1); kv != nil {
		view.Exists = true
		view.Slice, err = decodeSlice(id, c, kv)
	}
	return view, err
}

// Put puts the record of the view's workspace, and how many slices are given then. It reports
// false if another caller has written since the view.
func (s Slices) Put(ctx context.Context, view SliceView, next ledger.Slice, given int) (done bool, err error) {
	value := sliceValue{V: valueVersion, Binding: next.Binding, Child: next.Child, State: next.State, Since: next.Since.UTC()}
	return s.write(ctx, view, given, Put(s.keys(view.Slice.Pool).member(view.Slice.Cluster), encode(value)))
}

// Delete deletes the record, as Put puts one.
func (s Slices) Delete(ctx context.Context, view SliceView, given int) (done bool, err error) {
	return s.write(ctx, view, given, Remove(s.keys(view.Slice.Pool).member(view.Slice.Cluster)))
}

func (s Slices) write(ctx context.Context, view SliceView, given int, write clientv3.Op) (bool, error) {
	fence := s.keys(view.Slice.Pool).head()
	resp, err := s.Commit(ctx, Cmps(At(fence, view.fence)), Ops(write, Put(fence, encode(slicesValue{V: valueVersion, Given: given}))), nil)
	return err == nil && resp.Succeeded, err
}

// DeleteAll deletes all records of a pool, and their fence.
func (s Slices) DeleteAll(ctx context.Context, id ledger.PoolID) error {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	if _, err := s.Client.Delete(ctx, string(s.keys(id)), clientv3.WithPrefix()); err != nil {
		return s.Unavailable(err)
	}
	return nil
}

func decodeSlice(id ledger.PoolID, c ledger.ClusterName, kv *mvccpb.KeyValue) (ledger.Slice, error) {
	var v sliceValue
	if err := decode(string(kv.Key), kv.Value, &v); err != nil {
		return ledger.Slice{}, fmt.Errorf("slice of %s: %w", c, err)
	}
	return ledger.Slice{Pool: id, Cluster: c, Binding: v.Binding, Child: v.Child, State: v.State, Since: v.Since}, nil
}
