package verify

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// serve has a scene's verifier listen until the test ends, and returns where, and
// what it is hinted at.
func (s *scene) serve(leads bool) (socket string, hinted *[]string) {
	s.Helper()
	leading := make(chan struct{})
	if leads {
		close(leading)
	}
	dir, err := os.MkdirTemp("", "verify") // a test's own folder may be too deep for a socket
	s.must(err)
	s.Cleanup(func() { _ = os.RemoveAll(dir) })
	hinted = &[]string{}
	server := &Server{
		Path: filepath.Join(dir, "verify.sock"), Verifier: s.Verifier, Leading: leading,
		Hints: Hints{
			Claim:   func(h ledger.Holder) { *hinted = append(*hinted, "claim "+h.Namespace+"/"+h.Name) },
			Pool:    func(id ledger.PoolID) { *hinted = append(*hinted, "pool "+string(id)) },
			Release: func(h ledger.Holder) { *hinted = append(*hinted, "release "+string(h.Claim)) },
		},
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- server.Start(ctx) }()
	s.Cleanup(func() {
		cancel()
		s.must(<-ended)
	})
	deadline := time.After(10 * time.Second)
	for {
		if conn, err := dial(ctx, server.Path); err == nil {
			s.must(conn.Close())
			return server.Path, hinted
		}
		select {
		case <-deadline:
			s.Fatal("nobody listens")
		case <-time.After(time.Millisecond):
		}
	}
}

func TestServer_VerifiesAndRepairs(t *testing.T) {
	s := newScene(t)
	delete(s.records, "a")
	delete(s.pools, "child")
	s.show("root", "10.0.0.0/16", "0", "0", "0")
	socket, hinted := s.serve(true)
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket is %v, %v; want it closed to others", info.Mode(), err)
	}

	report, err := Ask(t.Context(), socket)
	if err != nil || len(report.Findings) != 4 || report.Repairs() != 4 || report.Pools != 2 || report.Blocks != 3 {
		t.Fatalf("the report is %+v, %v", report, err)
	}
	if len(*hinted) > 0 {
		t.Errorf("to look has done %v", *hinted)
	}
	if err := AskRepair(t.Context(), socket, report); err != nil {
		t.Fatal(err)
	}
	want := []string{"release uid-of-child", "claim default/a", "pool uid-of-root", "release uid-of-child"}
	if !slices.Equal(*hinted, want) {
		t.Errorf("hinted at %v, want %v", *hinted, want)
	}
}

func TestServer_RepairsOnlyWhatWasShown(t *testing.T) {
	s := newScene(t)
	delete(s.records, "a")
	socket, hinted := s.serve(true)
	report, err := Ask(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	s.hold("b", "10.0.2.0/24")
	if _, err := Ask(t.Context(), socket); err != nil {
		t.Fatal(err)
	}
	if err := AskRepair(t.Context(), socket, report); err == nil || len(*hinted) > 0 {
		t.Errorf("an old report is repaired: %v, %v", err, *hinted)
	}
}

func TestServer_OnlyTheLeaderRepairs(t *testing.T) {
	s := newScene(t)
	delete(s.records, "a")
	socket, hinted := s.serve(false)
	report, err := Ask(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	if err := AskRepair(t.Context(), socket, report); err == nil || len(*hinted) > 0 {
		t.Errorf("another replica repairs: %v, %v", err, *hinted)
	}
}

func TestAsk_Nobody(t *testing.T) {
	dir := t.TempDir()
	left := filepath.Join(dir, "left.sock")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", left)
	if err != nil {
		t.Fatal(err)
	}
	listener.(*net.UnixListener).SetUnlinkOnClose(false) // as a killed process leaves it
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	for _, socket := range []string{left, filepath.Join(dir, "none.sock"), filepath.Join(dir, string(make([]byte, 200)))} {
		if _, err := Ask(t.Context(), socket); !errors.Is(err, ErrNobody) {
			t.Errorf("ask at %q: %v, want %v", socket, err, ErrNobody)
		}
	}
}
