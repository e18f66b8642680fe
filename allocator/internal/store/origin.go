package store

import (
	"context"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

// Origin reads where the ledger's holders are. If the ledger has no origin yet, Origin stores seen as its origin, and
// returns it.
func (s *Store) Origin(ctx context.Context, seen string) (string, error) {
	key := s.Keys.origin()
	resp, err := s.Commit(ctx, Cmps(Absent(key)), Ops(Put(key, encodeOrigin(seen))), Ops(Get(key)))
	if err != nil {
		return "", err
	}
	if resp.Succeeded {
		return seen, nil
	}
	return decodeOrigin(Results(resp.Responses).Found(0))
}

// ReplaceOrigin gives the ledger another origin.
func (s *Store) ReplaceOrigin(ctx context.Context, origin string) error {
	_, err := s.Write(ctx, nil, Ops(Put(s.Keys.origin(), encodeOrigin(origin))), nil)
	return err
}

// Origin reads where the ledger's holders are; empty: the ledger does not say.
func (r Reader) Origin(ctx context.Context) (string, error) {
	s := NewStore(r.Client, r.Prefix)
	kv, _, err := s.Get(ctx, s.Keys.origin())
	if err != nil || kv == nil {
		return "", err
	}
	return decodeOrigin(kv)
}

func encodeOrigin(origin string) string { return encode(originValue{V: valueVersion, Origin: origin}) }

func decodeOrigin(kv *mvccpb.KeyValue) (string, error) {
	var v originValue
	err := decode(string(kv.Key), kv.Value, &v)
	return v.Origin, err
}
