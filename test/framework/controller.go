package framework

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/kcp-ipam/ipam/test/framework/local"
	"github.com/kcp-ipam/ipam/test/must"
)

// Controller is the controller of a platform, a process of its own. Its methods are safe for concurrent use, except those that
// start and stop it.
type Controller struct{ process *local.Controller }

// StartController starts the controller, over the data it had before if any, and
// returns when it is ready.
func (c Controller) StartController(t testing.TB) {
	t.Helper()
	must.Do(t, current(t).startController(t.Context(), c.process))
}

// LaunchController starts the controller where it cannot be ready, and returns when it lives.
func (c Controller) LaunchController(t testing.TB) {
	t.Helper()
	must.Do(t, errors.Join(current(t).build(), c.process.Launch(t.Context())))
}

// StopController asks the controller to end, and waits.
func (c Controller) StopController(t testing.TB) {
	t.Helper()
	must.Do(t, c.process.Stop())
}

// KillController ends the controller with SIGKILL.
func (c Controller) KillController(t testing.TB) {
	t.Helper()
	must.Do(t, c.process.Kill())
}

// PauseController stops the controller where it is, with SIGSTOP, as if its machine stood
// still. It must go on, or be killed, before it can be stopped.
func (c Controller) PauseController(t testing.TB) {
	t.Helper()
	must.Do(t, c.process.Pause())
}

// ResumeController lets a paused controller go on.
func (c Controller) ResumeController(t testing.TB) {
	t.Helper()
	must.Do(t, c.process.Resume())
}

// WaitControllerEnded waits until the controller has ended by itself.
func (c Controller) WaitControllerEnded(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	must.Do(t, c.process.AwaitEnd(ctx))
}

// WebhookPort returns the port at which the controller answers CREATE, on this machine.
func (c Controller) WebhookPort(t testing.TB) string {
	t.Helper()
	_, port, err := net.SplitHostPort(c.process.WebhookAddress())
	if err != nil {
		t.Fatalf("net.SplitHostPort: %v", err)
	}
	return port
}

// LedgerDir returns the folder of the etcd inside the controller. Nobody else may open it
// while the controller runs.
func (c Controller) LedgerDir() string { return c.process.LedgerDir() }

// Probe returns an error if the controller answers a probe, like "/readyz", with
// anything but 200.
func (c Controller) Probe(ctx context.Context, path string) error {
	return c.process.Probe(ctx, path)
}

// Metrics returns the controller's metrics in the text format of Prometheus.
func (c Controller) Metrics(t testing.TB) string {
	t.Helper()
	return must.Get(c.process.Metrics(t.Context()))(t)
}

// endWith ends a controller with the test: kcp serves it as long as it runs, and a
// suite has many. The end of its log is shown if the test has failed.
func endWith(t testing.TB, process interface {
	Log() string
	Stop() error
	Kill() error
}) {
	showOnFailure(t, process.Log())
	t.Cleanup(func() {
		end := process.Stop
		if t.Failed() {
			end = process.Kill // it may stand still
		}
		if err := end(); err != nil {
			t.Errorf("end: %v", err)
		}
	})
}
