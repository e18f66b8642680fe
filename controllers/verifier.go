package controllers

import (
	"cmp"
	"context"
	"net/http"

	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/controllers/history"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/controllers/release"
	"github.com/kcp-ipam/ipam/controllers/verify"
)

// NewVerifier makes a verifier of a ledger where no controller runs. It reads the platform and its tenants itself.
func NewVerifier(ground Ground, books allocator.Reader, opts verify.Options) (*verify.Verifier, error) {
	reading := ground.reading()
	reading.Identity = func(ctx context.Context, seen string) (string, error) {
		known, err := books.Origin(ctx)
		return cmp.Or(known, seen), err
	}
	reader, err := live.NewReader(reading)
	if err != nil {
		return nil, err
	}
	opts.World, opts.Ledger = reader, books
	return verify.New(opts), nil
}

// addVerifier adds the verifier of a running controller, and the socket on which commands ask for
// its report, and for the history.
func addVerifier(mgr mcmanager.Manager, reader *live.Reader, hints *release.Hints, opts Options) error {
	opts.Verify.World, opts.Verify.Reserved = reader, opts.Ledger.Reservations().Since
	verifier := verify.New(opts.Verify)
	if err := mgr.GetLocalManager().Add(verifier); err != nil || opts.VerifySocket == "" {
		return err
	}
	news := opts.Ledger.inbox
	return mgr.GetLocalManager().Add(&verify.Server{
		Path: opts.VerifySocket, Verifier: verifier, Leading: mgr.Elected(),
		Hints: verify.Hints{Claim: news.Wake, Pool: func(id ledger.PoolID) { news.Changed(opts.Ledger.Pools(), id) }, Release: hints.Suspect},
		Also: map[string]http.Handler{
			history.Path:       history.Handler(opts.History, opts.Ledger.directory),
			history.FollowPath: history.FollowHandler(opts.History, opts.Ledger.directory),
		},
	})
}
