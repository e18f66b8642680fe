package stack

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/types"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// claimKeys begin the keys of all claims in kcp's etcd:
// <claimKeys><identity of the export>/<logical cluster>/<namespace>/<name>.
const claimKeys = "/registry/" + ipamv1alpha1.GroupName + "/ipclaims/"

// shown is what a claim shows at one revision.
type shown struct {
	uid    types.UID
	prefix netip.Prefix
}

// history follows all claims of some workspaces through every revision of kcp's etcd, with
// no gap when that is killed, and checks that no two show a common address at any of them.
type history struct {
	mu       sync.Mutex
	clusters map[string]bool
	claims   map[string]shown           // by key, those that show an address
	given    map[types.UID]netip.Prefix // what each claim has ever shown
	former   map[netip.Prefix]bool
	problems []string
	bound    int // claims that have shown an address
	reused   int // of them, those with exactly the block of a former one
	changed  chan struct{}
}

// newHistory follows the claims until the test ends.
func newHistory(t *testing.T) *history {
	t.Helper()
	h := blankHistory()
	store := framework.Store(t)
	asked, answered := context.WithTimeout(t.Context(), patience)
	now, err := store.Get(asked, claimKeys, clientv3.WithCountOnly())
	answered()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var following sync.WaitGroup
	following.Go(func() { h.follow(ctx, store, now.Header.Revision+1) })
	t.Cleanup(func() {
		cancel()
		following.Wait()
	})
	return h
}

func blankHistory() *history {
	return &history{
		clusters: map[string]bool{}, claims: map[string]shown{}, given: map[types.UID]netip.Prefix{},
		former: map[netip.Prefix]bool{}, changed: make(chan struct{}),
	}
}

// include has the claims of a workspace followed, from its first one on.
func (h *history) include(cluster string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clusters[cluster] = true
}

// follow applies every change from a revision on, again and again where the watch ends.
func (h *history) follow(ctx context.Context, store *clientv3.Client, from int64) {
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

// apply brings in one change.
func (h *history) apply(key string, kv *mvccpb.KeyValue) {
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
		h.show(kv.ModRevision, key, shown{uid: claim.UID, prefix: netip.MustParsePrefix(claim.Status.AllocatedCIDR)})
	}
}

// show notes that a claim shows an address, and compares it with all others.
func (h *history) show(revision int64, key string, now shown) {
	before, again := h.given[now.uid]
	switch {
	case !again:
		h.bound++
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
		if other != key && held.prefix.Overlaps(now.prefix) {
			h.problems = append(h.problems, fmt.Sprintf("revision %d: %s has %s while %s has %s", revision, key, now.prefix, other, held.prefix))
		}
	}
}

func (h *history) complain(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.problems = append(h.problems, fmt.Sprintf(format, args...))
}

// report has every problem fail the test, and says how much was seen.
func (h *history) report(t *testing.T) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, problem := range h.problems {
		t.Error(problem)
	}
	t.Logf("%d claims were bound, %d of them to addresses of former ones", h.bound, h.reused)
	if h.reused == 0 {
		t.Error("no address was given twice in a row: the run has proven little")
	}
}

// upTo waits until the history knows that a claim was bound.
func (h *history) upTo(t *testing.T, claim *ipamv1alpha1.IPClaim) {
	t.Helper()
	h.await(t, "claim "+claim.Name, func() bool {
		_, known := h.given[claim.UID]
		return known
	})
}

// upToReuse waits until an address was given again after it was free: on a busy machine
// that takes longer than the faults do.
func (h *history) upToReuse(t *testing.T) {
	t.Helper()
	h.await(t, "an address is given twice in a row", func() bool { return h.reused > 0 })
}

// await waits until the history has come so far.
func (h *history) await(t *testing.T, what string, come func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		h.mu.Lock()
		done, changed := come(), h.changed
		h.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("the history ends before %s", what)
		}
	}
}

// A history tells right from wrong.
func TestHistory(t *testing.T) {
	type step struct{ name, uid, cidr string } // no uid: deleted
	for _, tt := range []struct {
		name     string
		steps    []step
		problems int
		reused   int
	}{
		{"one after the other", []step{{"a", "1", "10.0.0.0/30"}, {"a", "", ""}, {"b", "2", "10.0.0.0/30"}}, 0, 1},
		{"side by side", []step{{"a", "1", "10.0.0.0/30"}, {"b", "2", "10.0.0.4/30"}}, 0, 0},
		{"recreated under its name", []step{{"a", "1", "10.0.0.0/30"}, {"a", "", ""}, {"a", "2", ""}, {"a", "2", "10.0.0.0/30"}}, 0, 1},
		{"at once", []step{{"a", "1", "10.0.0.0/30"}, {"b", "2", "10.0.0.0/30"}, {"a", "", ""}}, 1, 1},
		{"in part", []step{{"a", "1", "10.0.0.0/29"}, {"b", "2", "10.0.0.4/30"}}, 1, 0},
		{"another address", []step{{"a", "1", "10.0.0.0/30"}, {"a", "1", "10.0.0.4/30"}}, 1, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := blankHistory()
			h.include("w")
			for i, s := range tt.steps {
				kv := &mvccpb.KeyValue{ModRevision: int64(i)}
				if s.uid != "" {
					claim := gen.Claim(s.name, gen.UID(types.UID(s.uid)))
					claim.Status.AllocatedCIDR = s.cidr
					kv.Value, _ = json.Marshal(claim)
				}
				h.apply(claimKeys+"identity/w/default/"+s.name, kv)
			}
			if len(h.problems) != tt.problems || h.reused != tt.reused {
				t.Errorf("problems %q, %d reused; want %d, %d", h.problems, h.reused, tt.problems, tt.reused)
			}
		})
	}
}
