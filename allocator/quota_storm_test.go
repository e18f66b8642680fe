package allocator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kcp-ipam/ipam/allocator/etcdtest"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// The limits of the storm, in addresses.
const (
	stormOfPool  = 48
	stormByClass = 72
)

// hoarder is a workspace that binds and releases at random, through any allocator.
type hoarder struct {
	*fixture
	allocators []*Allocator
	Cluster    ledger.ClusterName
	random     *rand.Rand
}

func (h *hoarder) step() {
	a := h.allocators[h.random.IntN(len(h.allocators))]
	claim := fmt.Sprint(h.Cluster, h.random.IntN(24))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var err error
	switch h.random.IntN(8) {
	case 0, 1, 2:
		err = a.Release(ctx, ledger.ClaimID(claim))
	case 3:
		_, _, err = a.Retained().Retain(ctx, ledger.ClaimID(claim), time.Time{})
	default:
		pool := []ledger.PoolID{"p", "q", "r"}[h.random.IntN(3)]
		_, err = a.Bind(ctx, of(h.Cluster, limited(stormOfPool, stormByClass, request(pool, claim, 27+h.random.IntN(6)))))
	}
	var exhausted *ledger.ExhaustedError
	var over *ledger.QuotaError
	if err != nil && !errors.As(err, &exhausted) && !errors.As(err, &over) {
		h.t.Errorf("got %v, want a refusal", err)
	}
}

// Whatever several allocators do at once, in several spaces, at no revision of the
// ledger has a workspace more than it may have.
func TestQuota_Storm(t *testing.T) {
	l := newLedger(t, func(o *Options) { o.MaxTxnOps = 16 })
	for id, cidr := range map[ledger.PoolID]string{"p": "10.0.0.0/24", "q": "10.0.1.0/24", "r": "10.0.2.0/24"} {
		l.pool(id, cidr)
	}
	allocators := []*Allocator{l.Allocator, l.open(), l.open()}
	var wg sync.WaitGroup
	for i := range 24 {
		wg.Go(func() {
			h := &hoarder{l, allocators, ledger.ClusterName(fmt.Sprint("w", i%3)), rand.New(rand.NewPCG(uint64(i), 11))}
			for range 60 {
				h.step()
			}
		})
	}
	wg.Wait()
	l.sameAsLedger(allocators[1:]...)
	most := heldEver(l.t, l.etcd)
	if most["p w0"] < stormOfPool/2 || most["c w0"] < stormByClass/2 {
		t.Error("the limits were never near:", most)
	}
	for account, n := range most {
		if limit := map[bool]int{true: stormByClass, false: stormOfPool}[strings.HasPrefix(account, "c ")]; n > limit {
			t.Errorf("%s had %d addresses, and may have %d", account, n, limit)
		}
	}
}

// heldEver reads the history of a ledger, and returns the most that each workspace ever
// had of each pool and class. It shares no code with what wrote it.
func heldEver(t *testing.T, e *etcdtest.Etcd) map[string]int {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	now, err := e.Client().Get(ctx, "/")
	if err != nil {
		t.Fatalf("etcd Get: %v", err)
	}
	blocks, held, most := map[string]string{}, map[string]int{}, map[string]int{}
	add := func(block string, n int) {
		for _, account := range strings.Split(block, ",")[1:] {
			held[account] += n
		}
	}
	for resp := range e.Client().Watch(ctx, "/ipam/v1/", clientv3.WithPrefix(), clientv3.WithRev(1), clientv3.WithProgressNotify()) {
		revision := int64(0)
		for i, ev := range resp.Events {
			key := string(ev.Kv.Key)
			if _, rest, ok := strings.Cut(key, "/blocks/"); ok {
				add(blocks[key], -size(rest)*min(1, len(blocks[key])))
				blocks[key] = accounts(t, ev)
				add(blocks[key], size(rest))
			}
			if revision = ev.Kv.ModRevision; i+1 < len(resp.Events) && resp.Events[i+1].Kv.ModRevision == revision {
				continue
			}
			for account, n := range held {
				most[account] = max(most[account], n)
			}
		}
		if revision >= now.Header.Revision {
			break
		}
	}
	return most
}

// accounts are those of a block, each after a comma; empty if it is gone.
func accounts(t *testing.T, ev *clientv3.Event) string {
	t.Helper()
	if ev.Type == clientv3.EventTypeDelete {
		return ""
	}
	var v struct{ Pool, Class, Cluster string }
	if err := json.Unmarshal(ev.Kv.Value, &v); err != nil {
		t.Fatalf("Unmarshal: %v", err)
	}
	return fmt.Sprintf(",%s %s,%s %s", v.Pool, v.Cluster, v.Class, v.Cluster)
}

// size is the number of addresses of an IPv4 prefix as keys write it.
func size(written string) int {
	var length int
	_, _ = fmt.Sscanf(written[strings.Index(written, "-")+1:], "%d", &length)
	return 1 << (32 - length)
}
