package door

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// sleeping returns a function that sends the CREATE of an object to a path with these slots.
func sleeping(t *testing.T, answerer Answerer, few slots) func(object string) {
	p := path{few, &sleepers{}, reviews{maxReview, "ipclaims", newServer(decider{answerer, deletes{}}, "", nil).answer}, func() {}, false}
	return func(object string) {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", bytes.NewReader(reviewOf(t, creating(object))))
		request.Header.Set("Content-Type", "application/json")
		response := httptest.NewRecorder()
		if p.ServeHTTP(response, request); response.Code != http.StatusOK {
			t.Errorf("the CREATE of %.80s is answered with HTTP status %d, want %d", object, response.Code, http.StatusOK)
		}
	}
}

// Many CREATEs of one workspace sleep, more than there are slots. They keep no other workspace waiting. Those beyond
// its share pass without an answer.
func TestSleep_LetsOtherWorkspacesPass(t *testing.T) {
	t.Parallel()
	const tooMany = 3
	wake, slept := make(chan struct{}), make(chan struct{}, asleepShare)
	var refused atomic.Int32
	answerer := answererFunc(func(ctx context.Context, req Request) (Answer, error) {
		if req.Cluster != "a" {
			return boundAnswer, nil
		}
		err := Sleep(ctx, req.Cluster, func(context.Context) error {
			slept <- struct{}{}
			<-wake
			return nil
		})
		if err != nil {
			refused.Add(1)
		}
		return boundAnswer, err
	})
	few := make(chan struct{}, 2)
	answer := sleeping(t, answerer, slots{few, nil})
	create := func(cluster string) {
		answer(fmt.Sprintf(`{"metadata":{"name":"c","annotations":{"kcp.io/cluster":%q}},"spec":{}}`, cluster))
	}
	var storm sync.WaitGroup
	for range asleepShare {
		storm.Go(func() { create("a") })
	}
	for range asleepShare {
		<-slept
	}
	for range tooMany {
		create("a")
	}
	create("b")
	close(wake)
	storm.Wait()
	if got := refused.Load(); got != tooMany || len(few) != 0 {
		t.Errorf("%d CREATEs of the storm were not answered, and %d slots are taken still; want %d and 0", got, len(few), tooMany)
	}
}

// The number of requests that sleep is bounded, for each workspace and for all. When they end, others may sleep.
func TestSleepers_AreBoundedForAWorkspaceAndForAll(t *testing.T) {
	t.Parallel()
	var s sleepers
	for n := range asleepShare {
		if !s.begin("a") {
			t.Fatalf("CREATE %d of a workspace may not sleep, want %d", n+1, asleepShare)
		}
	}
	if s.begin("a") {
		t.Errorf("more than %d CREATEs of a workspace sleep", asleepShare)
	}
	for n := range asleep - asleepShare {
		if !s.begin("b") && n < asleepShare {
			t.Errorf("CREATE %d of another workspace may not sleep", n+1)
		}
	}
	for range asleepShare {
		s.end("a")
		s.end("b")
	}
	if s.all != 0 || len(s.of) != 0 {
		t.Errorf("%d CREATEs of %d workspaces are counted, want none", s.all, len(s.of))
	}
}

// The requests of one user, in many workspaces, use up the limit for all. One request of any other workspace may sleep
// nevertheless.
func TestSleepers_KeepAPlaceForEachWorkspace(t *testing.T) {
	t.Parallel()
	var s sleepers
	for n := range asleep {
		if !s.begin(ledger.ClusterName(fmt.Sprint("storm-", n/asleepShare))) {
			t.Fatalf("request %d of the storm may not sleep", n+1)
		}
	}
	if s.begin("storm-0") {
		t.Error("a workspace that has its share may sleep once more")
	}
	if first, second := s.begin("calm"), s.begin("calm"); !first || second {
		t.Errorf("another workspace may sleep: %t, and once more: %t; want true and false", first, second)
	}
}

// However many DELETEs of one workspace there are, each is decided in its turn. A DELETE that waits for its turn keeps
// no other workspace waiting, and fails when its time is over.
func TestSleepInTurn_DecidesEachRequest(t *testing.T) {
	t.Parallel()
	const many = 3 * asleepShare
	slots, all := make(chan struct{}, many+1), &sleepers{}
	var now, most, done atomic.Int32
	wake, slept := make(chan struct{}), make(chan struct{}, many)
	request := func(ctx context.Context, cluster ledger.ClusterName, wait func(context.Context) error) error {
		slots <- struct{}{}
		defer func() { <-slots }()
		return SleepInTurn(context.WithValue(ctx, seated{}, seat{slots, all}), cluster, wait)
	}
	var storm sync.WaitGroup
	for range many {
		storm.Go(func() {
			err := request(t.Context(), "a", func(context.Context) error {
				most.Store(max(most.Load(), now.Add(1)))
				defer now.Add(-1)
				slept <- struct{}{}
				<-wake
				done.Add(1)
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	for range asleepShare {
		<-slept
	}
	if err := request(t.Context(), "b", func(context.Context) error { return nil }); err != nil {
		t.Errorf("a DELETE of another workspace = %v", err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := request(over, "a", func(context.Context) error { return nil }); !errors.Is(err, errAsleep) || !errors.Is(err, context.Canceled) {
		t.Errorf("a DELETE whose time is over = %v, want %v", err, errAsleep)
	}
	close(wake)
	storm.Wait()
	if done.Load() != many || most.Load() > asleepShare || len(slots) != 0 || all.all != 0 {
		t.Errorf("%d of %d were decided, %d at once, and %d slots are taken; want all, at most %d and 0", done.Load(), many, most.Load(), len(slots), asleepShare)
	}
}

// A request that has slept has its slot again.
func TestSleep_TakesTheSlotAgain(t *testing.T) {
	t.Parallel()
	slots := make(chan struct{}, 1)
	slots <- struct{}{}
	ctx := context.WithValue(t.Context(), seated{}, seat{slots, &sleepers{}})
	err := Sleep(ctx, "a", func(context.Context) error {
		if len(slots) != 0 {
			t.Error("a request that sleeps has a slot")
		}
		return context.Canceled
	})
	if !errors.Is(err, context.Canceled) || len(slots) != 1 {
		t.Errorf("Sleep = %v, with %d slots taken; want %v and 1", err, len(slots), context.Canceled)
	}
}

// A large request keeps its slot while it sleeps, because its decoded object stays in memory.
func TestSleep_KeepsTheSlotOfALargeRequest(t *testing.T) {
	t.Parallel()
	large := make(chan struct{}, 1)
	answerer := answererFunc(func(ctx context.Context, req Request) (Answer, error) {
		return boundAnswer, Sleep(ctx, req.Cluster, func(context.Context) error {
			if len(large) != 1 {
				t.Error("a large request that sleeps has no slot")
			}
			return nil
		})
	})
	sleeping(t, answerer, slots{make(chan struct{}, 1), large})(
		fmt.Sprintf(`{"metadata":{"name":"c","annotations":{"kcp.io/cluster":"a","padding":%q}},"spec":{}}`, strings.Repeat("x", largeBody)))
	if len(large) != 0 {
		t.Errorf("%d slots are taken, want 0", len(large))
	}
}
