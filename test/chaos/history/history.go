// Package history follows what claims show, through every revision of the etcd in which kcp keeps them. It has no gap
// when kcp is killed. It checks that no two claims show a common address at any revision, and that no claim's address
// ever changes. Claims for ranges are compared only with one another.
package history

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/types"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// claimKeys is the prefix of the keys of all claims in kcp's etcd:
// <claimKeys><identity of the export>/<logical cluster>/<namespace>/<name>.
const claimKeys = "/registry/" + ipamv1alpha1.GroupName + "/ipclaims/"

// shown is what a claim shows at one revision.
type shown struct {
	uid    types.UID
	prefix netip.Prefix
	ranged bool // it holds a range, in which other claims may have their addresses
}

// History knows all claims of some workspaces, whose pools must not overlap. Its
// methods are safe for concurrent use.
type History struct {
	stop      context.CancelFunc
	following sync.WaitGroup

	mu       sync.Mutex
	clusters map[string]bool
	claims   map[string]shown           // by key, those that show an address
	given    map[types.UID]netip.Prefix // what each claim has ever shown
	former   map[netip.Prefix]bool
	problems []string
	reused   int           // claims that were given exactly the block of a former claim
	changed  chan struct{} // closed at the next change
}

// Follow begins a history with the present content of kcp's etcd. Close it. The client of the etcd must outlive it,
// and has to wait while the etcd is away.
func Follow(ctx context.Context, store *clientv3.Client) (*History, error) {
	now, err := store.Get(ctx, claimKeys, clientv3.WithCountOnly())
	if err != nil {
		return nil, fmt.Errorf("begin a history: %w", err)
	}
	h := blank()
	ctx, h.stop = context.WithCancel(context.WithoutCancel(ctx))
	h.following.Go(func() { h.follow(ctx, store, now.Header.Revision+1) })
	return h, nil
}

func blank() *History {
	return &History{
		clusters: map[string]bool{}, claims: map[string]shown{}, given: map[types.UID]netip.Prefix{},
		former: map[netip.Prefix]bool{}, changed: make(chan struct{}),
	}
}

// Close ends the history. Its other methods still work.
func (h *History) Close() {
	h.stop()
	h.following.Wait()
}

// Include makes the history follow the claims of a workspace, named by its logical cluster, from its first claim on.
func (h *History) Include(cluster string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clusters[cluster] = true
}

// follow applies every change from a revision on. When the watch ends, it watches again.
func (h *History) follow(ctx context.Context, store *clientv3.Client, from int64) {
	for ctx.Err() == nil {
		for response := range store.Watch(ctx, claimKeys, clientv3.WithPrefix(), clientv3.WithRev(from)) {
			if response.CompactRevision > from {
				h.complain("the history has a gap between revisions %d and %d", from, response.CompactRevision)
				from = response.CompactRevision
			}
			for _, event := range response.Events {
				h.apply(string(event.Kv.Key), event.Kv)
				from = event.Kv.ModRevision + 1
			}
		}
	}
}

// apply applies one change.
func (h *History) apply(key string, kv *mvccpb.KeyValue) {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer func() {
		close(h.changed)
		h.changed = make(chan struct{})
	}()
	if parts := strings.Split(strings.TrimPrefix(key, claimKeys), "/"); len(parts) < 2 || !h.clusters[parts[1]] {
		return
	}
	if len(kv.Value) == 0 {
		delete(h.claims, key)
		return
	}
	claim := &ipamv1alpha1.IPClaim{}
	if err := json.Unmarshal(kv.Value, claim); err != nil {
		h.problems = append(h.problems, fmt.Sprintf("revision %d: %s: %v", kv.ModRevision, key, err))
		return
	}
	if claim.Status.AllocatedCIDR != "" {
		h.show(kv.ModRevision, key, shown{
			uid: claim.UID, prefix: netip.MustParsePrefix(claim.Status.AllocatedCIDR), ranged: claim.Spec.Target == ipamv1alpha1.TargetScopeRange,
		})
	}
}

// show notes that a claim shows an address, and compares that with all other addresses.
func (h *History) show(revision int64, key string, now shown) {
	before, again := h.given[now.uid]
	switch {
	case !again:
		if h.former[now.prefix] {
			h.reused++
		}
		h.former[now.prefix] = true
		h.given[now.uid] = now.prefix
	case before != now.prefix:
		h.problems = append(h.problems, fmt.Sprintf("revision %d: %s of UID %s had %s and has %s", revision, key, now.uid, before, now.prefix))
	}
	h.claims[key] = now
	for other, held := range h.claims {
		if other != key && held.ranged == now.ranged && held.prefix.Overlaps(now.prefix) {
			h.problems = append(h.problems, fmt.Sprintf("revision %d: %s has %s while %s has %s", revision, key, now.prefix, other, held.prefix))
		}
	}
}

func (h *History) complain(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.problems = append(h.problems, fmt.Sprintf(format, args...))
}

// Problems returns all problems found so far.
func (h *History) Problems() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.problems)
}

// Counts returns how many claims were given an address, how many of these got exactly the block of a former claim,
// and how many claims show an address now.
func (h *History) Counts() (given, reused, live int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.given), h.reused, len(h.claims)
}

// Given waits until a claim was given an address, and returns it.
func (h *History) Given(ctx context.Context, claim types.UID) (given netip.Prefix, err error) {
	err = h.await(ctx, func() (done bool) {
		given, done = h.given[claim]
		return done
	})
	return given, err
}

// Reused waits until a claim was given exactly the block of a former claim.
func (h *History) Reused(ctx context.Context) error {
	return h.await(ctx, func() bool { return h.reused > 0 })
}

// await waits until come returns true.
func (h *History) await(ctx context.Context, come func() bool) error {
	for {
		h.mu.Lock()
		done, changed := come(), h.changed
		h.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
