package allocator

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-ipam/ipam/allocator/index"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
)

var comparePrefix = cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })

func TestBind_RecordsAllFieldsOfTheBlock(t *testing.T) {
	l := withPool(t, "10.0.0.0/24")
	req := request("p", "c", 26)
	req.Class, req.Policy = "gold", ledger.Retain

	got := l.bind(req)

	want := ledger.Block{
		Prefix: prefix("10.0.0.0/26"), Pool: "p", Space: "p", Holder: req.Holder,
		Class: "gold", Policy: ledger.Retain, State: ledger.Bound, BoundAt: got.BoundAt, Revision: got.Revision,
	}
	if diff := cmp.Diff(want, got, comparePrefix); diff != "" {
		t.Errorf("Bind (-want +got):\n%s", diff)
	}
	read, ok, err := l.Lookup(t.Context(), "c")
	if diff := cmp.Diff(got, read, comparePrefix); err != nil || !ok || diff != "" {
		t.Errorf("Lookup = %v, %v, (-want +got) %s", ok, err, diff)
	}
	l.sameAsLedger()
}

func TestBind_AgainReturnsTheSameBlock(t *testing.T) {
	l := withPool(t, "10.0.0.0/24")
	l.pool("q", "10.1.0.0/24")
	want := l.bind(request("p", "c", 26))
	for i := range 3 {
		l.bind(request("p", fmt.Sprint("other", i), 26))
	}
	draining := l.pool("d", "10.2.0.0/24")
	l.bind(request("d", "last", 24))
	must.Do(t, l.Pools().Drain(t.Context(), draining.ID))
	for name, req := range map[string]ledger.Request{
		"same":                     request("p", "c", 26),
		"another length":           request("p", "c", 27),
		"another pool":             request("q", "c", 26),
		"a pool that is full":      request("p", "c", 24),
		"a pool that is draining":  request("d", "c", 26),
		"a pool that is not there": request("gone", "c", 26),
	} {
		if got := l.bind(req); got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
	l.sameAsLedger()
}

func TestBind_SaysWhyItRefuses(t *testing.T) {
	l := withPool(t, "10.0.0.0/24")
	l.pool("d", "10.2.0.0/24")
	l.bind(request("p", "c", 25))
	l.bind(request("d", "keeps it", 25))
	must.Do(t, l.Pools().Drain(t.Context(), "d"))
	exact := func(p string) ledger.Request {
		r := request("p", "x", 0)
		r.Exact = prefix(p)
		return r
	}
	for name, tc := range map[string]struct {
		req  ledger.Request
		want error
	}{
		"no pool":             {request("q", "x", 26), ledger.ErrUnknownPool},
		"draining":            {request("d", "x", 26), ledger.ErrPoolDraining},
		"exact, taken":        {exact("10.0.0.0/26"), ledger.ErrInUse},
		"exact, part taken":   {exact("10.0.0.0/24"), ledger.ErrInUse},
		"exact, outside":      {exact("10.0.1.0/26"), ledger.ErrOutOfRange},
		"exact, larger":       {exact("10.0.0.0/16"), ledger.ErrOutOfRange},
		"exact, other family": {exact("2001:db8::/64"), ledger.ErrOutOfRange},
		"exact, host bits":    {exact("10.0.0.129/25"), ledger.ErrInvalid},
		"no such length":      {request("p", "x", 33), ledger.ErrInvalid},
		"negative length":     {request("p", "x", -1), ledger.ErrInvalid},
		"no claim":            {request("p", "", 26), ledger.ErrInvalid},
		"claim with a slash":  {request("p", "a/b", 26), ledger.ErrInvalid},
	} {
		if _, err := l.Bind(t.Context(), tc.req); !errors.Is(err, tc.want) {
			t.Errorf("%s: got %v, want %v", name, err, tc.want)
		}
	}
	l.sameAsLedger()
}

// A bind of an exact prefix that the pool excludes fails with ExcludedError, also if a block is there. Without an
// exclusion it fails with ErrInUse.
func TestBind_SaysThatAPrefixIsExcluded(t *testing.T) {
	l := withPool(t, "10.0.0.0/24")
	l.bind(request("p", "c", 26))
	must.Do(t, l.Pools().Exclude(t.Context(), "p", []netip.Prefix{prefix("10.0.0.32/28"), prefix("10.0.0.128/30")}))
	for asked, want := range map[string]string{
		"10.0.0.130/32": "10.0.0.128/30", "10.0.0.128/25": "10.0.0.128/30", "10.0.0.40/32": "10.0.0.32/28", "10.0.0.0/24": "10.0.0.32/28",
	} {
		_, err := l.Bind(t.Context(), exactly(request("p", "x", 0), asked))
		if refused, ok := errors.AsType[*ledger.ExcludedError](err); !ok || *refused != (ledger.ExcludedError{Pool: "p", Excluded: prefix(want)}) {
			t.Errorf("Bind(%s) = %v, want a refusal for %s", asked, err, want)
		}
	}
	must.Fail(l.Bind(t.Context(), exactly(request("p", "x", 0), "10.0.0.0/32")))(t, ledger.ErrInUse)
	must.Do(t, l.Pools().Exclude(t.Context(), "p", nil))
	l.gets(exactly(request("p", "x", 0), "10.0.0.130/32"), "10.0.0.130/32")
	l.sameAsLedger()
}

func TestBind_SaysWhatAnExhaustedPoolHasLeft(t *testing.T) {
	l := withPool(t, "10.0.0.0/24")
	l.bind(request("p", "c", 25))
	for _, tc := range []struct{ length, largest int }{{24, 25}, {16, 25}} {
		_, err := l.Bind(t.Context(), request("p", "x", tc.length))
		var exhausted *ledger.ExhaustedError
		if !errors.As(err, &exhausted) || *exhausted != (ledger.ExhaustedError{Pool: "p", Length: tc.length, Largest: tc.largest}) {
			t.Errorf("/%d: got %v", tc.length, err)
		}
	}
	l.bind(request("p", "d", 25))
	_, err := l.Bind(t.Context(), request("p", "x", 32))
	if err == nil || err.Error() != "no free /32: the pool is full" {
		t.Errorf("Bind: %v", err)
	}
}

func TestBind_FollowsPrefixAndStrategy(t *testing.T) {
	l := withPool(t, "2001:db8::/32")
	exact := request("p", "exact", 0)
	exact.Exact = prefix("2001:db8:0:1::/64")
	least, best := request("p", "least", 64), request("p", "best", 64)
	least.Strategy, best.Strategy = index.LeastUtilized, index.BestFit
	for _, tc := range []struct {
		req  ledger.Request
		want string
	}{
		{exact, "2001:db8:0:1::/64"},
		{least, "2001:db8:8000::/64"},
		{request("p", "first", 64), "2001:db8::/64"},
		{best, "2001:db8:8000:1::/64"},
	} {
		if got := l.bind(tc.req); got.Prefix != prefix(tc.want) {
			t.Errorf("%s: got %s, want %s", tc.req.Holder.Claim, got.Prefix, tc.want)
		}
	}
	l.sameAsLedger()
}

// A caller that gives up in the queue leaves no block. A caller that gives up during the transaction finds its block
// when it binds again.
func TestBind_FindsItsBlockAfterItWasCancelled(t *testing.T) {
	l := withPool(t, "10.0.0.0/24")
	inFlight, goOn := l.holdCommits()

	sent, cancelSent := context.WithCancel(t.Context())
	queued, cancelQueued := context.WithCancel(t.Context())
	results := make(chan error, 2)
	bind := func(ctx context.Context, claim string) {
		_, err := l.Bind(ctx, request("p", claim, 26))
		results <- err
	}
	go bind(sent, "sent")
	<-inFlight
	go bind(queued, "queued")
	l.waitQueued(1)
	cancelSent()
	cancelQueued()
	for range 2 {
		must.Be(t, <-results, context.Canceled)
	}
	goOn()

	block := l.bind(request("p", "sent", 26))
	if _, ok, err := l.Lookup(t.Context(), "queued"); ok || err != nil {
		t.Error("a withdrawn request was bound", err)
	}
	blocks := l.sameAsLedger()
	if len(blocks) != 1 || blocks[0].Prefix != block.Prefix {
		t.Errorf("sameAsLedger: %v", blocks)
	}
}

func TestBind_RefusesWhenTheQueueIsFull(t *testing.T) {
	l := newLedger(t, func(o *Options) { o.QueueLimit = 1 })
	l.pool("p", "10.0.0.0/24")
	inFlight, goOn := l.holdCommits()
	done := make(chan error, 2)
	bind := func(claim string) {
		_, err := l.Bind(t.Context(), request("p", claim, 26))
		done <- err
	}
	go bind("sent")
	<-inFlight
	go bind("queued")
	l.waitQueued(1)
	must.Fail(l.Bind(t.Context(), request("p", "too many", 26)))(t, ledger.ErrBusy)
	goOn()
	for range 2 {
		must.Do(t, <-done)
	}
}
