package recover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Hints are the functions by which a server asks the controllers for repairs. None of them may block.
type Hints struct {
	// Claim requeues a claim.
	Claim func(ledger.Holder)
	// Pool requeues a pool.
	Pool func(ledger.PoolID)
	// Release asks for a check of a holder, and for the release of its block if the holder is gone.
	Release func(ledger.Holder)
}

// Server answers requests at a Unix socket that only the owner of the socket can use. A manager runs a Server on every
// replica.
type Server struct {
	// Path of the socket.
	Path string
	// Also are handlers of further paths. Nil: there are none.
	Also map[string]http.Handler

	parts atomic.Pointer[parts]
}

// parts are the verifier and the hints of a server. Without hints the server refuses to repair.
type parts struct {
	*Verifier
	hints *Hints
}

// Serve sets the verifier by which the server answers. The server refuses to repair until Lead is called. Call Serve
// before Start.
func (s *Server) Serve(v *Verifier) { s.parts.Store(&parts{Verifier: v}) }

// Lead sets the verifier by which the server answers, and the hints by which it repairs. Call it on the leader, which
// runs the controllers that receive the hints.
func (s *Server) Lead(v *Verifier, h Hints) { s.parts.Store(&parts{v, &h}) }

var _ manager.LeaderElectionRunnable = (*Server)(nil)

// NeedLeaderElection returns false: every replica answers.
func (s *Server) NeedLeaderElection() bool { return false }

// Start serves until the context ends. If the socket cannot be made, Start logs the error and returns nil, because the
// controller works without the socket.
func (s *Server) Start(ctx context.Context) error {
	logger := log.FromContext(ctx).WithValues("socket", s.Path)
	listener, err := s.listen(ctx)
	if err != nil {
		logger.Error(err, "nobody can ask this controller to verify")
		return nil
	}
	defer func() { _ = os.Remove(s.Path) }()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /verify", s.verify)
	mux.HandleFunc("POST /repair", s.repair)
	for path, handler := range s.Also {
		mux.Handle("POST /"+path, handler)
	}
	server := &http.Server{
		Handler: mux, ReadHeaderTimeout: 10 * time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })() // the broken connection tells the client
	if err := server.Serve(listener); ctx.Err() == nil {
		logger.Error(err, "nobody can ask this controller to verify any longer")
	}
	return nil
}

// listen makes the socket, and replaces a socket that a killed controller has left. It fails if another process listens
// at the path.
func (s *Server) listen(ctx context.Context) (net.Listener, error) {
	if conn, err := dial(ctx, s.Path); err == nil {
		return nil, errors.Join(fmt.Errorf("another process listens at %s", s.Path), conn.Close())
	}
	unready := s.Path + "~"
	if err := os.Remove(unready); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", unready)
	if err != nil {
		return nil, err
	}
	listener.(*net.UnixListener).SetUnlinkOnClose(false) // Start removes it, by its final name
	// The mode is set before the socket gets its final path, so no client finds the socket with its initial mode.
	err = os.Chmod(unready, 0o600)
	if err == nil {
		err = os.Rename(unready, s.Path)
	}
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}

func (s *Server) verify(w http.ResponseWriter, r *http.Request) {
	report, err := s.parts.Load().Verify(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(report); err != nil {
		log.FromContext(r.Context()).Error(err, "answer")
	}
}

// repair hints at the repairs of the report in the request. It refuses if another report was made since, or the replica
// is not the leader.
func (s *Server) repair(w http.ResponseWriter, r *http.Request) {
	var shown Report
	if err := json.NewDecoder(r.Body).Decode(&shown); err != nil {
		http.Error(w, "send the report to repair: "+err.Error(), http.StatusBadRequest)
		return
	}
	now := s.parts.Load()
	if now.hints == nil {
		http.Error(w, "this replica does not lead; ask the one that does", http.StatusConflict)
		return
	}
	last := now.lastReport()
	if !last.Time.Equal(shown.Time) || last.Revision != shown.Revision {
		http.Error(w, "something else was verified meanwhile; verify again", http.StatusConflict)
		return
	}
	for _, f := range last.Findings {
		now.hints.repair(f)
		if f.Repair != "" {
			log.FromContext(r.Context()).Info("repair", "repair", f.Repair, "kind", f.Kind, "cluster", f.Cluster,
				"namespace", f.Namespace, "name", f.Name, "prefix", f.Prefix)
		}
	}
}

func (h Hints) repair(f Finding) {
	switch f.Repair {
	case LookAtClaim:
		h.Claim(f.holder())
	case LookAtPool:
		h.Pool(ledger.PoolID(f.UID))
	case ConfirmRelease:
		h.Release(f.holder())
	}
}

func (v *Verifier) lastReport() Report {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.last
}
