package allocator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"time"
)

// valueVersion is the version of all values written. A change that an older
// program would misread raises it.
const valueVersion = 1

// current is how every value written here begins; checking it spares most
// values a second look.
var current = fmt.Appendf(nil, `{"v":%d,`, valueVersion)

// The values of the ledger. V comes first in each; names are short because
// there may be millions.
type (
	ledgerValue struct {
		V  int    `json:"v"`
		ID string `json:"id"`
	}
	headValue struct {
		V     int   `json:"v"`
		Count int64 `json:"n"`
	}
	rootsValue struct {
		V int `json:"v"`
	}
	claimValue struct {
		V      int          `json:"v"`
		Space  SpaceID      `json:"space"`
		Prefix netip.Prefix `json:"prefix"`
	}
	poolValue struct {
		V        int            `json:"v"`
		Space    SpaceID        `json:"space"`
		CIDR     netip.Prefix   `json:"cidr"`
		Excluded []netip.Prefix `json:"excluded,omitempty"`
		Parent   PoolID         `json:"parent,omitempty"`
		State    PoolState      `json:"state"`
		Cluster  ClusterName    `json:"cluster"`
		Name     string         `json:"name"`
	}
	blockValue struct {
		V         int           `json:"v"`
		Pool      PoolID        `json:"pool"`
		Claim     ClaimID       `json:"claim"`
		Cluster   ClusterName   `json:"cluster"`
		Namespace string        `json:"ns,omitempty"`
		Name      string        `json:"name"`
		Class     string        `json:"class,omitempty"`
		Policy    ReclaimPolicy `json:"policy"`
		State     BlockState    `json:"state"`
		BoundAt   time.Time     `json:"at"`
	}
)

// encode writes a value. It cannot fail: the values hold nothing that JSON lacks.
func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("allocator: encode %T: %v", v, err))
	}
	return string(b)
}

// decode reads the value of a key, or says what is wrong with it.
func decode(key string, value []byte, into any) error {
	if err := checkVersion(key, value); err != nil {
		return err
	}
	if err := json.Unmarshal(value, into); err != nil {
		return fmt.Errorf("key %s: value is damaged: %w", key, err)
	}
	return nil
}

func checkVersion(key string, value []byte) error {
	if bytes.HasPrefix(value, current) {
		return nil
	}
	var v struct {
		V int `json:"v"`
	}
	if err := json.Unmarshal(value, &v); err != nil {
		return fmt.Errorf("key %s: value is damaged: %w", key, err)
	}
	if v.V != valueVersion {
		return &VersionError{Key: key, Version: v.V}
	}
	return nil
}

func encodeHead(count int64) string {
	return encode(headValue{V: valueVersion, Count: count})
}

func decodeHead(key string, value []byte) (count int64, err error) {
	var v headValue
	err = decode(key, value, &v)
	return v.Count, err
}

func encodeRoots() string {
	return encode(rootsValue{V: valueVersion})
}

func encodePool(p Pool) string {
	return encode(poolValue{
		V: valueVersion, Space: p.Space, CIDR: p.CIDR, Excluded: p.Excluded, Parent: p.Parent,
		State: p.State, Cluster: p.Cluster, Name: p.Name,
	})
}

func decodePool(key string, id PoolID, value []byte) (Pool, error) {
	var v poolValue
	if err := decode(key, value, &v); err != nil {
		return Pool{}, err
	}
	return Pool{
		ID: id, Cluster: v.Cluster, Name: v.Name, Space: v.Space, CIDR: v.CIDR,
		Excluded: v.Excluded, Parent: v.Parent, State: v.State,
	}, nil
}

func encodeBlock(b Block) string {
	return encode(blockValue{
		V: valueVersion, Pool: b.Pool, Claim: b.Holder.Claim, Cluster: b.Holder.Cluster,
		Namespace: b.Holder.Namespace, Name: b.Holder.Name, Class: b.Class, Policy: b.Policy,
		State: b.State, BoundAt: b.BoundAt,
	})
}

// decodeBlock reads the block at a prefix of a space, last changed at revision.
func decodeBlock(key string, s SpaceID, p netip.Prefix, value []byte, revision int64) (Block, error) {
	var v blockValue
	if err := decode(key, value, &v); err != nil {
		return Block{}, err
	}
	return Block{
		Prefix: p, Pool: v.Pool, Space: s,
		Holder: Holder{Claim: v.Claim, Cluster: v.Cluster, Namespace: v.Namespace, Name: v.Name},
		Class:  v.Class, Policy: v.Policy, State: v.State, BoundAt: v.BoundAt, Revision: revision,
	}, nil
}
