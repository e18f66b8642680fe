package store

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"go.etcd.io/etcd/api/v3/mvccpb"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// DefaultTimeout bounds one request to etcd.
	DefaultTimeout = 5 * time.Second
	// coverOps is how many keys covering reads in one transaction. Any etcd takes that many.
	coverOps = 16
)

// Store reads and writes one ledger in etcd. It keeps nothing that it has read, and decides
// nothing. Errors of etcd are ErrUnavailable, with an explanation. It is safe for concurrent
// use, and must not be copied.
type Store struct {
	Client  *clientv3.Client
	Keys    Keys
	Timeout time.Duration // of one request
	Page    int           // keys that are read at once
	// Closed is closed when no request may begin any more; nil: never. Requests in flight are answered. Set it before the
	// first request.
	Closed <-chan struct{}
	// Lost is called, with the reason, when a transaction of Write shows that this process does not have the ledger any
	// more. Set it before the first request.
	Lost   func(error)
	office atomic.Pointer[Office] // nil: this process has not taken it
	// Traffic counts the transactions in flight, to which lists give way.
	Traffic traffic
}

// NewStore makes the store of the ledger below a prefix; empty: below the default one.
func NewStore(client *clientv3.Client, prefix string) *Store {
	return &Store{Client: client, Keys: newKeyspace(prefix), Timeout: DefaultTimeout, Page: pageSize, Lost: func(error) {}}
}

// CheckOpen returns ErrClosed once no request may begin.
func (s *Store) CheckOpen() error {
	select {
	case <-s.Closed:
		return ledger.ErrClosed
	default:
		return nil
	}
}

// Commit sends one transaction. The writer of the ledger does not use it, because the writer has to tell a transaction
// that etcd has refused from one that may have been committed.
func (s *Store) Commit(
	ctx context.Context, ifs []clientv3.Cmp, then, els []clientv3.Op,
) (*clientv3.TxnResponse, error) {
	if err := s.CheckOpen(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	resp, err := s.Client.Txn(ctx).If(ifs...).Then(then...).Else(els...).Commit()
	if err != nil {
		return nil, s.Unavailable(err)
	}
	return resp, nil
}

// ID reads the ledger's ID, and makes one if the ledger is new.
func (s *Store) ID(ctx context.Context) (string, error) {
	key, id := s.Keys.ledger(), rand.Text()
	resp, err := s.Commit(ctx, Cmps(Absent(key)), Ops(putID(key, id)), Ops(Get(key)))
	if err != nil {
		return "", err
	}
	if resp.Succeeded {
		return id, nil
	}
	return decodeID(Results(resp.Responses).Found(0))
}

// Renew gives the ledger another ID. The statuses of the pools name the former ID. So the next process trusts no pool
// before it has adopted the published records.
func (s *Store) Renew(ctx context.Context) error {
	_, err := s.Commit(ctx, nil, Ops(putID(s.Keys.ledger(), rand.Text())), nil)
	return err
}

func putID(key, id string) clientv3.Op {
	return Put(key, encode(ledgerValue{V: valueVersion, ID: id}))
}

// CheckWritable returns why etcd takes no writes; nil: it takes them. It sends a transaction whose comparison never
// holds, so that nothing is changed. etcd refuses even such a transaction if it has no space, or takes no writes.
func (s *Store) CheckWritable(ctx context.Context) error {
	key := s.Keys.ledger()
	_, err := s.Commit(ctx, Cmps(At(key, -1)), Ops(Put(key, "")), nil)
	return err
}

// PresentID reads the ledger's ID, and returns the revision of the answer, too. ok is false if the
// ledger has no ID.
func (s *Store) PresentID(ctx context.Context) (id string, ok bool, revision int64, err error) {
	kv, revision, err := s.Get(ctx, s.Keys.ledger())
	if err != nil || kv == nil {
		return "", false, revision, err
	}
	id, err = decodeID(kv)
	return id, true, revision, err
}

func decodeID(kv *mvccpb.KeyValue) (string, error) {
	var v ledgerValue
	err := decode(string(kv.Key), kv.Value, &v)
	return v.ID, err
}

// Get reads one key as of now, or as of a revision; nil: there is none. It returns the
// revision of the answer, too.
func (s *Store) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*mvccpb.KeyValue, int64, error) {
	if err := s.CheckOpen(); err != nil {
		return nil, 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	resp, err := s.Client.Get(ctx, key, opts...)
	if err != nil {
		return nil, 0, s.Unavailable(err)
	}
	if len(resp.Kvs) == 0 {
		return nil, resp.Header.Revision, nil
	}
	return resp.Kvs[0], resp.Header.Revision, nil
}

// Pool reads the record of a pool, and the revision of its last change; ok is false if there is none. It is also false
// for an address space, because the key of an address space does not have the whole record.
func (s *Store) Pool(ctx context.Context, id ledger.PoolID) (p ledger.Pool, revision int64, ok bool, err error) {
	if ledger.IsAddressSpace(id) {
		return ledger.Pool{}, 0, false, nil
	}
	kv, _, err := s.Get(ctx, s.Keys.Pool(id))
	if err != nil || kv == nil {
		return ledger.Pool{}, 0, false, err
	}
	p, err = DecodePool(string(kv.Key), id, kv.Value)
	return p, kv.ModRevision, err == nil, err
}

// RecordAt reads the block at exactly this prefix of a space.
func (s *Store) RecordAt(
	ctx context.Context, id ledger.SpaceID, p netip.Prefix, opts ...clientv3.OpOption,
) (Record, bool, error) {
	kv, _, err := s.Get(ctx, s.Keys.Space(id).Block(p), opts...)
	if err != nil || kv == nil {
		return Record{}, false, err
	}
	r, err := DecodeRecord(id, p, kv)
	return r, err == nil, err
}

// RecordOf reads a claim's key and its block, as of one revision. A cooling block still counts as the block of its
// former claim.
func (s *Store) RecordOf(ctx context.Context, id ledger.ClaimID) (r Record, ok bool, err error) {
	for {
		if r, ok, err = s.recordOf(ctx, id); !Compacted(err) { // else read both again
			return r, ok, err
		}
	}
}

// BlockOf reads the block of a claim, also if it cools; the zero Block: there is none.
func (s *Store) BlockOf(ctx context.Context, id ledger.ClaimID) (b ledger.Block, err error) {
	r, ok, err := s.RecordOf(ctx, id)
	if err != nil || !ok {
		return ledger.Block{}, err
	}
	return r.Block(), nil
}

func (s *Store) recordOf(ctx context.Context, id ledger.ClaimID) (r Record, ok bool, err error) {
	key := s.Keys.Claim(id)
	kv, revision, err := s.Get(ctx, key)
	if err != nil || kv == nil {
		return Record{}, false, err
	}
	space, p, err := DecodeClaim(kv)
	if err != nil {
		return Record{}, false, err
	}
	r, ok, err = s.RecordAt(ctx, space, p, clientv3.WithRev(revision))
	if err == nil && (!ok || !r.Of(id)) {
		return Record{}, false, fmt.Errorf("key %s: the claim has no block %s in space %s", key, p, space)
	}
	return r, ok, err
}

// covering reads the blocks of a space that contain a prefix and are larger, as of a revision.
func (s *Store) covering(
	ctx context.Context, id ledger.SpaceID, p netip.Prefix, revision int64,
) (records []Record, err error) {
	all := make([]netip.Prefix, p.Bits())
	for bits := range all {
		all[bits] = netip.PrefixFrom(p.Addr(), bits).Masked()
	}
	for part := range slices.Chunk(all, coverOps) {
		var gets []clientv3.Op
		for _, at := range part {
			gets = append(gets, clientv3.OpGet(s.Keys.Space(id).Block(at), clientv3.WithRev(revision)))
		}
		resp, err := s.Commit(ctx, nil, gets, nil)
		if err != nil {
			return nil, err
		}
		for i, at := range part {
			kv := Results(resp.Responses).Found(i)
			if kv == nil {
				continue
			}
			r, err := DecodeRecord(id, at, kv)
			if err != nil {
				return nil, err
			}
			records = append(records, r)
		}
	}
	return records, nil
}

// Overlapping reads the blocks of a space that overlap a prefix, and the revision of the space's head
// at that time.
func (s *Store) Overlapping(ctx context.Context, id ledger.SpaceID, p netip.Prefix) ([]Record, int64, error) {
	head, revision, err := s.Get(ctx, s.Keys.Space(id).Head())
	if err != nil || head == nil {
		return nil, 0, err
	}
	records, err := s.covering(ctx, id, p, revision)
	if err != nil {
		return nil, 0, err
	}
	from, end := s.Keys.Space(id).Within(p)
	for kv, err := range s.NewPager(revision).Keys(ctx, from, end) {
		if err != nil {
			return nil, 0, err
		}
		e := EntryOf(s.Keys, kv)
		if e.Damage != nil {
			return nil, 0, e.Damage
		}
		if e.Prefix.Overlaps(p) { // keys of IPv6 may lie between those of IPv4
			records = append(records, e.Block)
		}
	}
	return records, head.ModRevision, nil
}

// Unavailable says in plain words what a failed request to etcd means.
func (s *Store) Unavailable(err error) error { return explained(s.Client, err) }

// NewPager makes a pager. Revision 0 is now.
func (s *Store) NewPager(revision int64) *Pager {
	return &Pager{store: s, Size: s.Page, Fit: s.Page, revision: revision}
}
