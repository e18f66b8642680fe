package framework

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/recover"
	"github.com/kcp-ipam/ipam/test/framework/local"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// Controller is the controller of a platform, a process of its own. Its methods are safe for concurrent use, except those that
// start and stop it.
type Controller struct{ process *local.Controller }

// StartController starts the controller, over its former data if there is any, and returns when it is ready.
func (c Controller) StartController(t testing.TB) {
	t.Helper()
	must.Do(t, current(t).startController(t.Context(), c.process))
}

// LaunchController starts a controller that cannot become ready, and returns when it lives.
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

// PauseController stops the controller with SIGSTOP, as if its machine stood still. Resume or kill it before
// StopController.
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

// Metric returns the value in the line of a metric that begins with begin; empty if there is none.
func (c Controller) Metric(t testing.TB, begin string) string {
	t.Helper()
	for line := range strings.SplitSeq(c.Metrics(t), "\n") {
		if value, ok := strings.CutPrefix(line, begin); ok {
			return value
		}
	}
	return ""
}

// WaitMetric waits until the line of a metric that begins with begin has the value want. If want is empty, it waits
// until there is no such line.
func (c Controller) WaitMetric(t testing.TB, begin, want string) {
	t.Helper()
	Eventually(t, "the metric "+begin, func(context.Context) error {
		if got := c.Metric(t, begin); got != want {
			return fmt.Errorf("it is %q, want %q", got, want)
		}
		return nil
	})
}

// endWith ends a controller with the test: while a controller runs, kcp has to serve it, and a suite has many. If the
// test has failed, the end of its log is shown.
func endWith(t testing.TB, process interface {
	Log() string
	Stop() error
	Kill() error
}) {
	showOnFailure(t, process.Log())
	t.Cleanup(func() {
		end := process.Stop
		if t.Failed() {
			end = process.Kill // the process may be paused
		}
		if err := end(); err != nil {
			t.Errorf("end: %v", err)
		}
	})
}

const (
	lastLines  = 25 // so that the failure before them is not cut off where a part of the output is kept
	lastFaults = 20
	lineWidth  = 500
)

// Log returns the lines that the controller has logged.
func (c Controller) Log(t testing.TB) []string {
	t.Helper()
	data := must.Get(os.ReadFile(c.process.Log()))(t)
	return strings.Split(strings.TrimSpace(string(data)), "\n")
}

// showOnFailure prints the end of a controller's log if the test fails.
func showOnFailure(t testing.TB, file string) {
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Logf("the controller has written no log: %v", err)
			return
		}
		lines := strings.Split(strings.TrimSpace(string(data)), "\n")
		t.Logf("end of the controller's log, %s:\n%s", file, tail(lines, lastLines))
	})
}

// fault matches a line in which klog logs an error, and the first line of a crash.
var fault = regexp.MustCompile(`^([EF]\d{4} |panic: |fatal error: )`)

// showFaults prints the last errors in the logs of the servers of kcp.
func showFaults(dir string) {
	files, _ := filepath.Glob(filepath.Join(dir, "*.log")) // The pattern is well formed.
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			fmt.Fprintln(os.Stderr, "framework:", err)
			continue
		}
		faults := slices.DeleteFunc(strings.Split(string(data), "\n"), func(line string) bool { return !fault.MatchString(line) })
		fmt.Fprintf(os.Stderr, "framework: last of %d errors in %s:\n%s\n", len(faults), filepath.Base(file), tail(faults, lastFaults))
	}
}

// tail returns the last count lines, each cut at lineWidth.
func tail(lines []string, count int) string {
	lines = slices.Clone(lines[max(0, len(lines)-count):])
	for i, line := range lines {
		lines[i] = line[:min(len(line), lineWidth)]
	}
	return strings.Join(lines, "\n")
}

// WaitWebhooks waits until the webhooks of the running controller are registered at kcp, and until kcp asks them about
// the claims that these clients create in the namespace default.
func (p *Platform) WaitWebhooks(t testing.TB, clients ...client.Client) {
	t.Helper()
	admin := p.Admin(t)
	Eventually(t, "the webhooks to be registered", func(ctx context.Context) error { return p.registered(ctx, admin) })
	p.WaitAsked(t, clients...)
}

// WaitAsked waits until the server asks the controller's webhooks, at whatever address, about the claims that these
// clients create in the namespace default.
func (c Controller) WaitAsked(t testing.TB, clients ...client.Client) {
	t.Helper()
	for _, asks := range clients {
		Eventually(t, "the webhooks to be asked", func(ctx context.Context) error {
			asked := c.AnswersGiven(t)
			if err := asks.Create(ctx, gen.Claim("asks"), client.DryRunAll); err != nil {
				return err
			}
			if c.AnswersGiven(t) == asked {
				return fmt.Errorf("they were asked %d times before, and no more", asked)
			}
			return nil
		})
	}
}

// registered returns an error if kcp does not know the webhooks of the controller.
func (p *Platform) registered(ctx context.Context, admin client.Client) error {
	key := client.ObjectKey{Name: ipamv1alpha1.GroupName}
	mutating := &admissionregistrationv1.MutatingWebhookConfiguration{}
	validating := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if err := admin.Get(ctx, key, mutating); err != nil {
		return err
	}
	if err := admin.Get(ctx, key, validating); err != nil {
		return err
	}
	for _, webhook := range mutating.Webhooks {
		if url := webhook.ClientConfig.URL; url == nil || !strings.HasPrefix(*url, p.process.Webhooks()+"/") {
			return fmt.Errorf("%s is not at %s", webhook.Name, p.process.Webhooks())
		}
	}
	return nil
}

var answersLine = regexp.MustCompile(`(?m)^ipam_create_answers_total\{result="\w+"\} (\d+)$`)

// AnswersGiven returns how often the controller was asked to answer the CREATE of a claim, whatever
// the answer was.
func (c Controller) AnswersGiven(t testing.TB) int {
	t.Helper()
	total := 0
	for _, match := range answersLine.FindAllStringSubmatch(c.Metrics(t), -1) {
		count := must.Get(strconv.Atoi(match[1]))(t)
		total += count
	}
	return total
}

// Verify runs the command verify with these further flags, on the running controller or else on its data. It returns
// the exit code, and the report if there is one.
func (c Controller) Verify(t testing.TB, flags ...string) (recover.Report, int) {
	t.Helper()
	must.Do(t, current(t).build())
	var out, says bytes.Buffer
	cmd := c.process.Command(t.Context(), "verify", append([]string{"-o", "json"}, flags...)...)
	cmd.Stdout, cmd.Stderr = &out, &says
	err := cmd.Run()
	exit, ended := errors.AsType[*exec.ExitError](err)
	if err != nil && !ended {
		t.Fatal(err)
	}
	t.Logf("verify %q: %v\n%s", flags, err, says.String())
	var report recover.Report
	if out.Len() > 0 {
		if err := json.Unmarshal(out.Bytes(), &report); err != nil {
			t.Fatalf("the report is no JSON: %v\n%s", err, out.String())
		}
	}
	if exit == nil {
		return report, 0
	}
	return report, exit.ExitCode()
}

// WaitVerified waits until the verifier finds nothing.
func (c Controller) WaitVerified(t testing.TB, flags ...string) {
	t.Helper()
	Eventually(t, "the verifier to find nothing", func(context.Context) error {
		report, exit := c.Verify(t, flags...)
		if exit != 0 {
			return fmt.Errorf("it exits with %d and finds %+v", exit, report.Findings)
		}
		return nil
	})
}

// WaitSwept waits for the end of that many sweeps, the last one before the call included.
func (c Controller) WaitSwept(t testing.TB, passes int) {
	t.Helper()
	const last = "ipam_sweep_last_success_timestamp_seconds "
	seen := ""
	for range passes {
		Eventually(t, "another sweep", func(context.Context) error {
			at := c.Metric(t, last)
			if at == "" || at == seen {
				return fmt.Errorf("the last one was at %q", seen)
			}
			seen = at
			return nil
		})
	}
}
