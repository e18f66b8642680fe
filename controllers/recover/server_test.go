package recover

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
)

// serve runs a server for the scene's verifier until the test ends. It returns the path of the socket, and the hints
// that the server gives.
func (s *scene) serve(leads bool) (socket string, hinted *[]string) {
	s.Helper()
	dir := must.Get(os.MkdirTemp("", "verify"))(s) // a test's own folder may be too deep for a socket
	s.Cleanup(func() { _ = os.RemoveAll(dir) })
	hinted = &[]string{}
	server := &Server{Path: filepath.Join(dir, "verify.sock")}
	server.Serve(s.Verifier)
	if leads {
		server.Lead(s.Verifier, Hints{
			Claim:   func(h ledger.Holder) { *hinted = append(*hinted, "claim "+h.Namespace+"/"+h.Name) },
			Pool:    func(id ledger.PoolID) { *hinted = append(*hinted, "pool "+string(id)) },
			Release: func(h ledger.Holder) { *hinted = append(*hinted, "release "+string(h.Claim)) },
		})
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- server.Start(ctx) }()
	s.Cleanup(func() {
		cancel()
		must.Do(s, <-ended)
	})
	deadline := time.After(10 * time.Second)
	for {
		if conn, err := dial(ctx, server.Path); err == nil {
			must.Do(s, conn.Close())
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
	must.Do(t, AskRepair(t.Context(), socket, report))
	want := []string{"release uid-of-child", "claim default/a", "pool uid-of-root", "release uid-of-child"}
	if !slices.Equal(*hinted, want) {
		t.Errorf("hinted at %v, want %v", *hinted, want)
	}
}

// AskRepair fails, and nothing is hinted at, if the report is outdated or the replica is not the leader.
func TestServer_RefusesToRepair(t *testing.T) {
	for _, leads := range []bool{true, false} {
		s := newScene(t)
		delete(s.records, "a")
		socket, hinted := s.serve(leads)
		report := must.Get(Ask(t.Context(), socket))(t)
		if leads {
			s.hold("b", "10.0.2.0/24")
			must.Get(Ask(t.Context(), socket))(t)
		}
		if err := AskRepair(t.Context(), socket, report); err == nil || len(*hinted) > 0 {
			t.Errorf("the replica leads: %t; AskRepair = %v, and it hinted at %v; want an error, and no hint", leads, err, *hinted)
		}
	}
}

func TestAsk_SaysThatNoControllerListens(t *testing.T) {
	dir := t.TempDir()
	left := filepath.Join(dir, "left.sock")
	listener := must.Get((&net.ListenConfig{}).Listen(t.Context(), "unix", left))(t)
	listener.(*net.UnixListener).SetUnlinkOnClose(false) // as a killed process leaves it
	must.Do(t, listener.Close())
	for _, socket := range []string{left, filepath.Join(dir, "none.sock"), filepath.Join(dir, string(make([]byte, 200)))} {
		if _, err := Ask(t.Context(), socket); !errors.Is(err, ErrNobody) {
			t.Errorf("ask at %q: %v, want %v", socket, err, ErrNobody)
		}
	}
}

// slow is a World that takes its time.
type slow struct {
	*scene
	clock *clocktesting.FakeClock
	takes time.Duration // the time of each list
}

func (w slow) Each(ctx context.Context, list client.ObjectList, visit func(ledger.ClusterName, client.Object)) error {
	w.clock.Step(w.takes)
	return w.scene.Each(ctx, list, visit)
}

// After a long verification, the next one begins only after a pause that is two hundred times as long.
func TestStart_RestsLongerAfterALongVerification(t *testing.T) {
	s := newScene(t)
	clock := clocktesting.NewFakeClock(time.Now())
	v := NewVerifier(VerifierOptions{Ledger: s, World: slow{s, clock, 5 * time.Second}, Clock: clock})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- v.Start(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	waits := func() {
		t.Helper()
		err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, time.Minute, true, func(context.Context) (bool, error) { return clock.HasWaiters(), nil })
		if err != nil {
			t.Fatal("the verifier does not wait for its next verification")
		}
	}
	waits()
	clock.Step(12 * time.Minute) // 10 minutes, jittered
	waits()
	if s.looks != 1 {
		t.Fatalf("the verifier has looked %d times after 12 minutes, want once", s.looks)
	}
	clock.Step(49 * time.Minute) // 15 s are a two-hundredth of 50 minutes
	if !clock.HasWaiters() {
		t.Fatal("the verifier does not rest two hundred times as long as a verification takes")
	}
	clock.Step(12 * time.Minute)
	waits()
	if s.looks != 2 {
		t.Errorf("the verifier has looked %d times, want twice", s.looks)
	}
}

func TestRest_GrowsWithTheLastVerification(t *testing.T) {
	for _, tt := range []struct{ interval, worked, want time.Duration }{
		{10 * time.Minute, 0, 10 * time.Minute},
		{10 * time.Minute, 3 * time.Second, 10 * time.Minute},
		{10 * time.Minute, 20 * time.Second, 4000 * time.Second},
		{10 * time.Minute, time.Hour, 4 * time.Hour},
		{6 * time.Hour, time.Hour, 6 * time.Hour},
	} {
		v := NewVerifier(VerifierOptions{Interval: tt.interval})
		v.worked = tt.worked
		if got := v.rest(); got != tt.want {
			t.Errorf("every %s, after a verification of %s, the verifier rests %s, want %s", tt.interval, tt.worked, got, tt.want)
		}
	}
}

// The pause before the second comparison does not count as work.
func TestRest_DoesNotCountThePause(t *testing.T) {
	s := newScene(t)
	delete(s.records, "a")
	v := NewVerifier(VerifierOptions{Ledger: s, World: s, Pause: 100 * time.Millisecond})
	begun := time.Now()
	if _, err := v.Verify(t.Context()); err != nil || s.looks != 2 {
		t.Fatalf("the verifier has looked %d times, want twice; %v", s.looks, err)
	}
	if most := time.Since(begun) - v.Pause; v.worked <= 0 || v.worked > most {
		t.Errorf("the verifier has worked %s, want no more than %s", v.worked, most)
	}
}
