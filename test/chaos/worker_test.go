package chaos

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/index"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/chaos/etcd"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// workerEnv makes the test binary a worker, on the etcd at the addresses that it lists.
const workerEnv = "CHAOS_WORKER"

// request is a line that a worker reads.
type request struct {
	ID       int
	Do       string // a key of deeds
	Pool     ledger.PoolID
	Claim    ledger.ClaimID
	Former   ledger.ClaimID // of a hand over: the holder that has the block
	Network  string         // of the derived pool, or of the address space, that it is about
	Of       ledger.PoolID  // the pool to which Pool is an address space; empty: Pool is none
	Length   int
	Exact    netip.Prefix
	Strategy index.Strategy
	Timeout  time.Duration
	Lease    time.Duration // of the request retain
}

// answer is a line that a worker writes.
type answer struct {
	ID int
	outcome
}

// outcome is the result of a request: done, with or without a block; refused; or unknown.
type outcome struct {
	Prefix   netip.Prefix // of the claim's block; invalid if it has none
	Revision int64
	Moved    bool   // the former claim had the block, and no longer has it
	Freed    bool   // the block existed, and no longer exists
	Refusal  string // one of the refusals below
	Largest  int    // the length of the largest free block, if the pool is exhausted
	Unknown  string // what went wrong
	Blocks   int    // of a pool
	Free     string // addresses of a pool
}

const (
	exhausted = "exhausted"
	inUse     = "in use"
	busy      = "busy"
	poolInUse = "pool in use"
	noPool    = "no such pool"
	changed   = "changed"
	broken    = "broken" // an answer that no ledger may give
)

// work answers requests until standard input ends.
func work(addrs string) error {
	client, err := etcd.Dial(strings.Split(addrs, ",")...)
	if err != nil {
		return err
	}
	defer client.Close()
	w := &worker{etcd: client, turn: make(chan struct{}, 1), out: json.NewEncoder(os.Stdout)}
	defer w.close()
	return w.serve(bufio.NewReader(os.Stdin))
}

// cooldown lets released blocks cool for a moment, except in pool b.
func cooldown(b ledger.Block) (time.Duration, error) {
	if b.Pool == "b" {
		return 0, nil
	}
	return 300 * time.Millisecond, nil
}

// worker takes the office of the ledger's writer when it gets a request, and takes it again after it has lost it.
type worker struct {
	etcd *clientv3.Client
	turn chan struct{} // its holder may open the ledger
	open *allocator.Allocator

	mu  sync.Mutex
	out *json.Encoder
}

// leader returns the allocator of the worker once it has the office.
func (w *worker) leader(ctx context.Context) (a *allocator.Allocator, err error) {
	select {
	case w.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-w.turn }()
	if w.open != nil && w.open.Err() == nil {
		return w.open, nil
	}
	w.close()
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	w.open, err = allocator.Open(ctx, w.etcd, allocator.Options{Logger: logger, Cooldown: cooldown, History: 24 * time.Hour})
	if errors.Is(err, ledger.ErrExpired) || errors.Is(err, ledger.ErrDeposed) {
		err = fmt.Errorf("%w: %w", ledger.ErrUnavailable, err)
	}
	return w.open, err
}

func (w *worker) close() {
	if w.open != nil {
		_ = w.open.Close() // Close never fails
	}
	w.open = nil
}

func (w *worker) serve(in io.Reader) error {
	var calls sync.WaitGroup
	defer calls.Wait()
	for lines := json.NewDecoder(in); ; {
		var r request
		err := lines.Decode(&r)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		calls.Go(func() { w.answer(r) })
	}
}

func (w *worker) answer(r request) {
	ctx, cancel := context.WithTimeout(context.Background(), r.Timeout)
	defer cancel()
	var o outcome
	a, err := w.leader(ctx)
	if err == nil {
		o, err = deeds[r.Do](ctx, a, r)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.out.Encode(answer{r.ID, r.outcome(o, err)}); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// outcome turns an error into a refusal, which is certain, or into an unknown outcome.
func (r request) outcome(o outcome, err error) outcome {
	var full *ledger.ExhaustedError
	var excluded *ledger.ExcludedError
	var held *ledger.HeldError
	var releasing *ledger.ReleasingError
	switch {
	case err == nil:
	case errors.As(err, &full):
		o.Refusal, o.Largest = exhausted, full.Largest
	case errors.Is(err, ledger.ErrInUse), errors.As(err, &excluded):
		o.Refusal = inUse
	case errors.Is(err, ledger.ErrPoolInUse):
		o.Refusal = poolInUse
	case errors.Is(err, ledger.ErrChanged), errors.Is(err, ledger.ErrInvalid):
		o.Refusal = changed
	case errors.Is(err, ledger.ErrUnknownPool):
		o.Refusal = noPool
	case errors.Is(err, ledger.ErrBusy), errors.Is(err, ledger.ErrCools),
		errors.Is(err, ledger.ErrPoolDraining), errors.As(err, &held), errors.As(err, &releasing):
		o.Refusal = busy
	case errors.Is(err, ledger.ErrUnavailable), errors.Is(err, ledger.ErrClosed), errors.Is(err, context.DeadlineExceeded):
		o.Unknown = err.Error()
	default:
		o.Refusal, o.Unknown = broken, err.Error()
	}
	return o
}

func (r request) allocation() ledger.Request {
	return ledger.Request{
		Pool: r.Pool, Begins: r.begins(), Length: r.Length, Exact: r.Exact, Strategy: r.Strategy,
		Holder: ledger.Holder{Claim: r.Claim, Cluster: "tenant", Namespace: "default", Name: nameOf(r.Claim)},
	}
}

// laterClaim is the end of the ID of a claim that follows a claim of the same name.
const laterClaim = "-later"

// later returns the ID of the holder to which a block is handed over: the claim itself if the block was bound by an
// allocation ID, else the claim that follows it under the same name.
func later(id ledger.ClaimID) ledger.ClaimID {
	if ledger.IsAllocationID(id) {
		return ledger.ClaimID(nameOf(id))
	}
	return id + laterClaim
}

// nameOf returns the name of a claim.
func nameOf(id ledger.ClaimID) string {
	var epoch, n int64
	if _, err := fmt.Sscanf(string(id), allocationIDs, &epoch, &n); err == nil {
		return claimName(epoch, n)
	}
	return strings.TrimSuffix(string(id), laterClaim)
}

// deeds are the requests that a worker can answer.
var deeds = map[string]func(context.Context, *allocator.Allocator, request) (outcome, error){
	"register": func(ctx context.Context, a *allocator.Allocator, r request) (outcome, error) {
		p, err := a.Pools().Register(ctx, *findWindow(r.Pool))
		return outcome{Prefix: p.CIDR}, err
	},
	"bind": func(ctx context.Context, a *allocator.Allocator, r request) (outcome, error) {
		b, err := a.Bind(ctx, r.allocation())
		return outcome{Prefix: b.Prefix, Revision: b.Revision}, err
	},
	"release": func(ctx context.Context, a *allocator.Allocator, r request) (outcome, error) { //nolint:unparam // All deeds have one shape.
		return outcome{}, a.Release(ctx, r.Claim)
	},
	"close": func(ctx context.Context, a *allocator.Allocator, r request) (outcome, error) { //nolint:unparam // All deeds have one shape.
		return outcome{}, closeRange(ctx, a, r)
	},
	"hesitate": hesitate,
	"carve": func(ctx context.Context, a *allocator.Allocator, r request) (outcome, error) {
		if r.Network != "" {
			return provision(ctx, a, r)
		}
		p, err := a.Pools().Carve(ctx, r.allocation(), ledger.Pool{ID: ledger.PoolID(r.Claim), Cluster: "tenant", Name: string(r.Claim)})
		return outcome{Prefix: p.CIDR}, err
	},
	"retire": func(ctx context.Context, a *allocator.Allocator, r request) (outcome, error) { //nolint:unparam // All deeds have one shape.
		return outcome{}, a.Pools().Retire(ctx, ledger.PoolID(r.Claim))
	},
	"retain": func(ctx context.Context, a *allocator.Allocator, r request) (outcome, error) {
		b, _, err := a.Retained().Retain(ctx, r.Claim, time.Now().Add(r.Lease))
		return outcome{Prefix: b.Prefix, Revision: b.Revision}, err
	},
	"fail": func(ctx context.Context, a *allocator.Allocator, r request) (outcome, error) {
		b, ok, err := a.Lookup(ctx, r.Claim)
		if err != nil || !ok || b.State != ledger.Bound {
			return outcome{Prefix: b.Prefix, Revision: b.Revision}, err
		}
		err = a.ReleaseFor(ctx, b, ledger.CauseCreateFailed)
		return outcome{Freed: err == nil}, err
	},
	"hand over": func(ctx context.Context, a *allocator.Allocator, r request) (outcome, error) {
		former, ok, err := a.Lookup(ctx, r.Former)
		if err != nil || !ok {
			return outcome{Refusal: changed}, err
		}
		b, err := a.Retained().HandOver(ctx, former, allocator.Successor{Holder: r.allocation().Holder})
		return outcome{Prefix: b.Prefix, Revision: b.Revision, Moved: err == nil}, err
	},
	"expire": func(ctx context.Context, a *allocator.Allocator, r request) (outcome, error) {
		b, ok, err := a.Lookup(ctx, r.Claim)
		if err != nil || !ok || b.State != ledger.Retained || time.Now().Before(b.Until) {
			return outcome{Prefix: b.Prefix, Revision: b.Revision}, err
		}
		err = a.ReleaseFor(ctx, b, ledger.CauseReleased)
		return outcome{Freed: err == nil}, err
	},
	"lookup": func(ctx context.Context, a *allocator.Allocator, r request) (outcome, error) {
		b, ok, err := a.Lookup(ctx, r.Claim)
		if !ok {
			return outcome{}, err
		}
		return outcome{Prefix: b.Prefix, Revision: b.Revision}, err
	},
	"capacity": func(_ context.Context, a *allocator.Allocator, r request) (outcome, error) {
		c, ok := a.Pools().Capacity(r.Pool)
		if !ok {
			return outcome{}, ledger.ErrUnknownPool
		}
		return outcome{Blocks: c.Blocks, Free: c.Available.String()}, a.Healthy()
	},
}
