package store

import (
	"encoding/json"
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

// waitersValue is the value of the mark of a space in which claims wait.
type waitersValue struct {
	V      int    `json:"v"`
	Writer string `json:"w"`
}

// EncodeWriter is the value of the mark, which names the writer that keeps the list.
func EncodeWriter(writer string) string {
	return encode(waitersValue{V: valueVersion, Writer: writer})
}

// decodeWriter is the writer that a mark names. A mark that cannot be read is taken for another
// writer's.
func decodeWriter(value []byte) string {
	var v waitersValue
	if err := json.Unmarshal(value, &v); err != nil || v.Writer == "" {
		return "unknown"
	}
	return v.Writer
}
