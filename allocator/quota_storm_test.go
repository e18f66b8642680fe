package allocator

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/etcdtest"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// The limits of the storm, in addresses.
const (
	stormOfPool  = 48
	stormByClass = 72
)

// hoarder is a caller of a workspace that binds and releases at random.
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
	if err != nil && !refusal(err) {
		h.t.Errorf("got %v, want a refusal", err)
	}
}

// Whatever many callers do at once, in several spaces, no workspace has more than its limits at any revision of the
// ledger.
func TestQuota_IsNeverExceededInAStorm(t *testing.T) {
	l := newLedger(t, func(o *Options) { o.MaxTxnOps = 16 })
	for id, cidr := range map[ledger.PoolID]string{"p": "10.0.0.0/24", "q": "10.0.1.0/24", "r": "10.0.2.0/24"} {
		l.pool(id, cidr)
	}
	allocators := []*Allocator{l.Allocator, l.Allocator, l.Allocator}
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
	l.sameAsLedger()
	most := heldEver(l.t, l.etcd)
	limits, nearest := map[bool]int{true: stormByClass, false: stormOfPool}, map[bool]int{}
	for account, n := range most {
		byClass := strings.HasPrefix(account, "c ")
		if limit := limits[byClass]; n > limit {
			t.Errorf("%s had %d addresses, and may have %d", account, n, limit)
		}
		nearest[byClass] = max(nearest[byClass], n)
	}
	for byClass, limit := range limits {
		if nearest[byClass] < limit/2 {
			t.Errorf("no workspace was near the limits: %v", most)
		}
	}
}

// heldEver reads the history of a ledger, and returns the most that each workspace ever had of each pool and class. It
// shares no code with the writer.
func heldEver(t *testing.T, e *etcdtest.Etcd) map[string]int {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	now := must.Get(e.Client().Get(ctx, "/"))(t)
	blocks, held, most := map[string]string{}, map[string]int{}, map[string]int{}
	add := func(block string, n int) {
		for _, account := range strings.Split(block, ",")[1:] {
			held[account] += n
		}
	}
	for resp := range e.Client().Watch(ctx, "/ipam/v1/", clientv3.WithPrefix(), clientv3.WithRev(e.From), clientv3.WithProgressNotify()) {
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

// accounts returns the accounts that a block counts for, each after a comma; empty if the block is gone.
func accounts(t *testing.T, ev *clientv3.Event) string {
	t.Helper()
	if ev.Type == clientv3.EventTypeDelete {
		return ""
	}
	var v struct{ Pool, Class, Cluster string }
	must.Do(t, json.Unmarshal(ev.Kv.Value, &v))
	return fmt.Sprintf(",%s %s,%s %s", v.Pool, v.Cluster, v.Class, v.Cluster)
}

// size returns the number of addresses of an IPv4 prefix as keys write it.
func size(written string) int {
	var length int
	_, _ = fmt.Sscanf(written[strings.Index(written, "-")+1:], "%d", &length)
	return 1 << (32 - length)
}

// A limit has room for one of two claims. Addresses are held for the first claim. If it does not take them, for
// whatever reason, the second claim is woken. If the first claim gets a hold on other addresses instead, the second is
// not woken.
func TestQuota_WakesTheNextClaimIfAHoldEndsUnused(t *testing.T) {
	for name, tt := range map[string]struct {
		end  func(*room) error
		want []ledger.ClaimID
	}{
		"withdrawn": {func(r *room) error {
			r.Waits().Withdraw("first")
			return nil
		}, []ledger.ClaimID{"second"}},
		"bound elsewhere": {func(r *room) error {
			_, err := r.Bind(r.t.Context(), request("q", "first", 26))
			return err
		}, []ledger.ClaimID{"second"}},
		"over": {func(r *room) error {
			r.clock.advance(defaultHoldTime)
			return nil
		}, []ledger.ClaimID{"second", "first"}}, // which says now that a limit stops it
		"excluded": {func(r *room) error {
			return r.Pools().Exclude(r.t.Context(), "p", []netip.Prefix{prefix("10.0.0.0/26")})
		}, []ledger.ClaimID{"first"}},
		"excluded and withdrawn": {func(r *room) error {
			err := r.Pools().Exclude(r.t.Context(), "p", []netip.Prefix{prefix("10.0.0.0/26")})
			r.wantWoken("first")
			r.Waits().Withdraw("first")
			return err
		}, []ledger.ClaimID{"second"}},
	} {
		for _, limits := range [][2]int64{{64, 0}, {0, 64}} {
			t.Run(name, func(t *testing.T) {
				r := newRoom(t)
				r.pool("q", "10.1.0.0/24")
				r.bind(limited(limits[0], limits[1], request("p", "held", 26)))
				r.Waits().Add(since(1, limited(limits[0], limits[1], request("p", "first", 26))))
				r.Waits().Add(since(2, limited(limits[0], limits[1], request("p", "second", 27))))
				r.release("held")
				r.wantWoken("first")
				if err := tt.end(r); err != nil {
					t.Fatalf("the hold does not end: %v", err)
				}
				r.wantWoken(tt.want...)
				r.sameAsLedger()
			})
		}
	}
}
