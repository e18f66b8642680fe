package framework

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"testing"

	"github.com/kcp-ipam/ipam/controllers/verify"
	"github.com/kcp-ipam/ipam/test/must"
)

// Verify runs the command verify on the controller, or on its data if it does not run,
// with these flags beside. It returns the report, if one was made, and the exit code.
func (c Controller) Verify(t testing.TB, flags ...string) (verify.Report, int) {
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
	var report verify.Report
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
