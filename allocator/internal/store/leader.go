package store

import "go.etcd.io/etcd/api/v3/mvccpb"

// leaderValue is the value of the key by which the leader says where it answers.
type leaderValue struct {
	V  int    `json:"v"`
	At string `json:"at"`
}

// EncodeLeader returns the value of the key by which the leader says where it answers.
func EncodeLeader(at string) string {
	return encode(leaderValue{V: valueVersion, At: at})
}

func decodeLeader(kv *mvccpb.KeyValue) (at string, err error) {
	var v leaderValue
	err = decode(string(kv.Key), kv.Value, &v)
	return v.At, err
}
