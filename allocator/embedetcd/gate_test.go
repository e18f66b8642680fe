package embedetcd

import (
	"context"
	"errors"
	"sync"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kcp-ipam/ipam/test/must"
)

// A server is closed while callers read. Each call is answered, or fails with ErrStopped, and so do all later calls.
// Without the gate, etcd would read in a closed file.
func TestClose_AnswersItsCallers(t *testing.T) {
	for range 3 {
		s := mustStart(t, t.TempDir())
		put(t, s, "k", "v")
		var callers sync.WaitGroup
		calling := make(chan struct{}, 16)
		for range cap(calling) {
			callers.Go(func() {
				err := readUntilItFails(t.Context(), s.Client(), calling)
				if !errors.Is(err, rpctypes.ErrStopped) {
					t.Errorf("a read of a closed server ends with %v", err)
				}
			})
		}
		for range cap(calling) {
			<-calling
		}
		must.Do(t, s.Close())
		callers.Wait()
		if _, err := s.Client().Put(t.Context(), "k", "w"); !errors.Is(err, rpctypes.ErrStopped) {
			t.Errorf("a write to a closed server ends with %v", err)
		}
	}
}

func readUntilItFails(ctx context.Context, client *clientv3.Client, calling chan<- struct{}) error {
	_, err := client.Get(ctx, "k", clientv3.WithSerializable())
	calling <- struct{}{}
	for err == nil {
		_, err = client.Get(ctx, "k", clientv3.WithSerializable())
	}
	return err
}
