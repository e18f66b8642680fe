package controllers

import (
	"cmp"
	"context"
	"io"
	"net/http"

	"sigs.k8s.io/controller-runtime/pkg/log"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/controllers/history"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/controllers/recover"
	"github.com/kcp-ipam/ipam/controllers/release"
)

// NewVerifier makes a verifier of a ledger for use without a controller. The verifier reads the platform and its
// tenants itself.
func NewVerifier(ground Ground, books allocator.Reader, opts recover.VerifierOptions) (*recover.Verifier, error) {
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
	return recover.NewVerifier(opts), nil
}

// SnapshotPath is the path below its socket at which a controller streams a snapshot of its etcd.
const SnapshotPath = "snapshot"

// snapshots returns a handler that answers with what take writes. If take fails, the connection breaks, so that the
// client notices.
func snapshots(take func(context.Context, io.Writer) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := take(r.Context(), w); err != nil {
			log.FromContext(r.Context()).Error(err, "a snapshot failed")
			panic(http.ErrAbortHandler)
		}
	})
}

// newSocket adds the socket at which commands ask any replica for a report, the history or a snapshot. It returns nil
// if the options name no socket.
func newSocket(mgr mcmanager.Manager, reader *live.Reader, opts Options) (*recover.Server, error) {
	if opts.VerifySocket == "" {
		return nil, nil //nolint:nilnil // there is none
	}
	opts.Verify.World = reader
	s := &recover.Server{
		Path: opts.VerifySocket,
		Also: map[string]http.Handler{
			history.Path:       history.Handler(opts.History, opts.Ledger.directory),
			history.FollowPath: history.FollowHandler(opts.History, opts.Ledger.directory),
			SnapshotPath:       snapshots(opts.Snapshot),
		},
	}
	s.Serve(recover.NewVerifier(opts.Verify))
	return s, mgr.GetLocalManager().Add(s)
}

// addVerifier adds the verifier of the leader. It also lets the socket repair the differences that this verifier finds.
func addVerifier(
	mgr mcmanager.Manager, socket *recover.Server, reader *live.Reader, hints *release.Hints, opts Options,
) error {
	opts.Verify.World = reader
	verifier := recover.NewVerifier(opts.Verify)
	if socket != nil {
		news := opts.Ledger.inbox
		socket.Lead(verifier, recover.Hints{
			Claim: news.Wake, Pool: func(id ledger.PoolID) { news.Changed(opts.Ledger.Pools(), id) }, Release: hints.Suspect,
		})
	}
	return mgr.GetLocalManager().Add(verifier)
}
