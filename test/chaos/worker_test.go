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

// workerEnv has the test binary be a worker, on etcd at the addresses it lists.
const workerEnv = "CHAOS_WORKER"

// request is a line that a worker reads.
type request struct {
	ID       int
	Do       string // a key of deeds
	Pool     ledger.PoolID
	Claim    ledger.ClaimID
	Former   ledger.ClaimID // of a hand over: the holder that has the block
	Network  string         // whose derived pool it is about, or whose address space
	Of       ledger.PoolID  // the pool whose address space Pool is; empty: it is none
	Length   int
	Exact    netip.Prefix
	Strategy index.Strategy
	Timeout  time.Duration
	Lease    time.Duration // of a retain
}

// answer is a line that a worker writes.
type answer struct {
	ID int
	outcome
}

// outcome is what became of a request. It is one of: done, with or without a
// block; refused; unknown.
type outcome struct {
	Prefix   netip.Prefix // of the claim's block; invalid if it has none
	Revision int64
	Moved    bool   // the former claim had the block, and has it no more
	Freed    bool   // the block was there, and is there no more
	Refusal  string // one of the refusals below
	Largest  int    // of an exhausted pool
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

// cooldown lets the blocks of all pools but one cool for a moment.
func cooldown(b ledger.Block) (time.Duration, error) {
	if b.Pool == "b" {
		return 0, nil
	}
	return 300 * time.Millisecond, nil
}

// worker takes the office of the ledger's writer when it is asked something, and again after it has lost that.
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
		_ = w.open.Close() // it never fails
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

// outcome sorts an error into the refusals, which are certain, and the rest.
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

// laterClaim ends the ID of a claim that follows one of the same name.
const laterClaim = "-later"

// later returns the ID of the holder to which the block of another one of the same name is handed over: of a claim that
// follows it, or of the claim itself if it was bound by an allocation ID.
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

// deeds are what can be asked of a worker.
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
