package allocator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// ErrSlicesGiven: as many slices of the pool are given as may be.
var ErrSlicesGiven = errors.New("all slices of the pool are given")

// SliceState is what a workspace has of a pool's slices.
type SliceState string

const (
	// SliceWaiting: the workspace waits for one.
	SliceWaiting SliceState = "waiting"
	// SliceGiven: the workspace has one, or is about to. It counts until it is
	// declined or dropped.
	SliceGiven SliceState = "given"
	// SliceDeclined: the workspace has given its slice up, for as long as its binding
	// lasts.
	SliceDeclined SliceState = "declined"
)

// Slice is the record of what a workspace has of a pool that gives every workspace
// one block. It is no block: that is carved like any child pool's.
type Slice struct {
	Pool    PoolID
	Cluster ClusterName
	// Binding is what entitles the workspace: another binding is entitled anew.
	Binding string
	// Child is the pool that was made for it. Empty until that is known.
	Child PoolID
	State SliceState
	// Since is the workspace's place among those that wait.
	Since time.Time
}

// sliceValue is a record, and slicesValue the fence of all records of a pool.
type (
	sliceValue struct {
		V       int        `json:"v"`
		Binding string     `json:"binding"`
		Child   PoolID     `json:"child,omitempty"`
		State   SliceState `json:"state"`
		Since   time.Time  `json:"since"`
	}
	slicesValue struct {
		V     int `json:"v"`
		Given int `json:"given"`
	}
)

func (k keyspace) slices(id PoolID) string               { return string(k) + "/slices/" + string(id) + "/" }
func (k keyspace) slicesHead(id PoolID) string           { return k.slices(id) + "head" }
func (k keyspace) members(id PoolID) string              { return k.slices(id) + "members/" }
func (k keyspace) slice(id PoolID, c ClusterName) string { return k.members(id) + string(c) }

// Slice reads the record of a workspace, as of now. ok is false if there is none.
func (a *Allocator) Slice(ctx context.Context, id PoolID, c ClusterName) (s Slice, ok bool, err error) {
	kv, _, err := a.read(ctx, a.keys.slice(id, c))
	if err != nil || kv == nil {
		return Slice{}, false, err
	}
	s, err = decodeSlice(id, c, kv)
	return s, err == nil, err
}

// Slices lists the records of a pool, as of one revision.
func (a *Allocator) Slices(ctx context.Context, id PoolID) ([]Slice, error) {
	var list []Slice
	from := a.keys.members(id)
	for kv, err := range a.pages(0).keys(ctx, from, clientv3.GetPrefixRangeEnd(from)) {
		if err != nil {
			return nil, err
		}
		s, err := decodeSlice(id, ClusterName(strings.TrimPrefix(string(kv.Key), from)), kv)
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

// PutSlice writes a record. With a limit above zero, one more slice than that is not
// given: ErrSlicesGiven. A slice that is given already is in no danger of it.
func (a *Allocator) PutSlice(ctx context.Context, s Slice, limit int) error {
	if err := errors.Join(checkID("pool", s.Pool), checkID("cluster", s.Cluster)); err != nil {
		return err
	}
	next := &sliceValue{V: valueVersion, Binding: s.Binding, Child: s.Child, State: s.State, Since: s.Since.UTC()}
	return a.changeSlice(ctx, s.Pool, s.Cluster, next, limit)
}

// DropSlice forgets what a workspace has. Without a record, nothing is to be done.
func (a *Allocator) DropSlice(ctx context.Context, id PoolID, c ClusterName) error {
	return a.changeSlice(ctx, id, c, nil, 0)
}

// DropSlices forgets a pool's slices altogether.
func (a *Allocator) DropSlices(ctx context.Context, id PoolID) error {
	if err := a.Err(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, a.hooks.timeout)
	defer cancel()
	if _, err := a.client.Delete(ctx, a.keys.slices(id), clientv3.WithPrefix()); err != nil {
		return a.unavailable(err)
	}
	return nil
}

// changeSlice puts or, if next is nil, removes a record, and counts what is given.
// The head is the fence: between the count and the write nobody else has written.
func (a *Allocator) changeSlice(ctx context.Context, id PoolID, c ClusterName, next *sliceValue, limit int) error {
	for {
		if err := a.Err(); err != nil {
			return err
		}
		before, err := a.slicesAt(ctx, id, c)
		if err != nil || next == nil && before.record == nil || next != nil && before.is(*next) {
			return err
		}
		given := before.given + counts(next) - counts(before.record)
		if limit > 0 && given > limit && given > before.given {
			return ErrSlicesGiven
		}
		write := remove(a.keys.slice(id, c))
		if next != nil {
			write = put(a.keys.slice(id, c), encode(next))
		}
		bounded, cancel := context.WithTimeout(ctx, a.hooks.timeout)
		resp, err := a.client.Txn(bounded).
			If(at(a.keys.slicesHead(id), before.head)).
			Then(write, put(a.keys.slicesHead(id), encode(slicesValue{V: valueVersion, Given: given}))).
			Commit()
		cancel()
		if err != nil {
			return a.unavailable(err)
		}
		if resp.Succeeded {
			return nil
		}
	}
}

// slicesView is the fence and one record of a pool's slices, at one revision.
type slicesView struct {
	head   int64 // revision of the fence; 0 if there is none
	given  int
	record *sliceValue
}

func (a *Allocator) slicesAt(ctx context.Context, id PoolID, c ClusterName) (slicesView, error) {
	ctx, cancel := context.WithTimeout(ctx, a.hooks.timeout)
	defer cancel()
	headKey, recordKey := a.keys.slicesHead(id), a.keys.slice(id, c)
	resp, err := a.client.Txn(ctx).Then(get(headKey), get(recordKey)).Commit()
	if err != nil {
		return slicesView{}, a.unavailable(err)
	}
	var view slicesView
	if kv := results(resp.Responses).found(0); kv != nil {
		var v slicesValue
		if err := decode(headKey, kv.Value, &v); err != nil {
			return slicesView{}, err
		}
		view.head, view.given = kv.ModRevision, v.Given
	}
	if kv := results(resp.Responses).found(1); kv != nil {
		view.record = &sliceValue{}
		return view, decode(recordKey, kv.Value, view.record)
	}
	return view, nil
}

// is reports whether the record says so already.
func (v slicesView) is(next sliceValue) bool {
	if v.record == nil || !v.record.Since.Equal(next.Since) {
		return false
	}
	next.Since = v.record.Since
	return *v.record == next
}

// counts is how many slices a record counts for.
func counts(v *sliceValue) int {
	if v == nil || v.State != SliceGiven {
		return 0
	}
	return 1
}

func decodeSlice(id PoolID, c ClusterName, kv *mvccpb.KeyValue) (Slice, error) {
	var v sliceValue
	if err := decode(string(kv.Key), kv.Value, &v); err != nil {
		return Slice{}, fmt.Errorf("slice of %s: %w", c, err)
	}
	return Slice{Pool: id, Cluster: c, Binding: v.Binding, Child: v.Child, State: v.State, Since: v.Since}, nil
}
