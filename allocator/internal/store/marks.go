package store

import (
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

// Turn is a writer's request to be the next to write a space.
type Turn struct {
	Writer string
	Took   time.Duration // by the writer's last transaction
}

// turnValue is the value of the key by which a writer asks.
type turnValue struct {
	V      int           `json:"v"`
	Writer string        `json:"w"`
	Took   time.Duration `json:"took"` // in nanoseconds
}

// EncodeTurn is the value of the key by which a writer asks for a turn.
func EncodeTurn(t Turn) string {
	return encode(turnValue{V: valueVersion, Writer: t.Writer, Took: t.Took})
}

func decodeTurn(kv *mvccpb.KeyValue) (Turn, error) {
	var v turnValue
	err := decode(string(kv.Key), kv.Value, &v)
	return Turn{Writer: v.Writer, Took: v.Took}, err
}

// leaderValue is the value of the key by which the leader says where it answers.
type leaderValue struct {
	V  int    `json:"v"`
	At string `json:"at"`
}

// EncodeLeader is the value of the key by which the leader says where it answers.
func EncodeLeader(at string) string {
	return encode(leaderValue{V: valueVersion, At: at})
}

func decodeLeader(kv *mvccpb.KeyValue) (at string, err error) {
	var v leaderValue
	err = decode(string(kv.Key), kv.Value, &v)
	return v.At, err
}
