//go:build long

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/must"
)

// An address that moves a hundred times is never lost.
func TestLong_CLIMovesAnAddressAHundredTimes(t *testing.T) {
	t.Parallel()
	moves(t, 100)
}

// One command imports a table of ten thousand claims. Another one releases them, is interrupted, and goes on when it
// is run again.
func TestLong_CLIReleasesTenThousandClaims(t *testing.T) {
	t.Parallel()
	const many = 10_000
	s := newScene(t)
	c := cli{s.tenant.CLI(t), t}
	table := strings.Builder{}
	table.WriteString("kind,name,cidr\npool,table,10.0.0.0/16\n")
	for i := range many {
		fmt.Fprintf(&table, "claim,row-%d,10.0.%d.%d/32\n", i, i/250, i%250)
	}
	began := time.Now()
	c.run("import", planFile(t, "table.csv", table.String())).ends(0)
	t.Logf("%d claims are imported after %s", many, time.Since(began).Round(time.Second))

	began = time.Now()
	first := interrupted(t, s, c.CLI, many-500, "pool", "release", "table", "--cascade", "--yes")
	said := regexp.MustCompile(`interrupted: (\d+) of 10000 claims released; run it again`).FindStringSubmatch(first)
	if said == nil {
		t.Fatalf("a release that was interrupted says %q; want how many claims are released, and to run it again", first)
	}
	t.Logf("%s claims are released after %s", said[1], time.Since(began).Round(time.Second))
	began = time.Now()
	c.run("pool", "release", "table", "--cascade", "--yes").ends(0)
	t.Logf("the others and the pool are released after another %s", time.Since(began).Round(time.Second))
	for _, list := range []client.ObjectList{&ipamv1alpha1.IPClaimList{}, &ipamv1alpha1.IPAllocationList{}, &ipamv1alpha1.IPPoolList{}} {
		must.Do(t, s.tenant.List(t.Context(), list))
		if left := meta.LenList(list); left > 0 {
			t.Errorf("left are %d of %T; want nothing", left, list)
		}
	}
}

// interrupted runs a command that releases claims, interrupts it when that many are left, and returns its messages.
func interrupted(t *testing.T, s scene, c framework.CLI, left int, args ...string) string {
	t.Helper()
	said := bytes.Buffer{}
	cmd := exec.CommandContext(t.Context(), c.Binary, args...)
	cmd.Env, cmd.Stderr = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig), &said
	must.Do(t, cmd.Start())
	framework.Within(t, 10*time.Minute, "some claims to be released", func(ctx context.Context) error {
		claims := &ipamv1alpha1.IPClaimList{}
		if err := s.tenant.List(ctx, claims); err != nil {
			return err
		}
		if len(claims.Items) > left {
			return fmt.Errorf("there are %d claims", len(claims.Items))
		}
		return nil
	})
	must.Do(t, cmd.Process.Signal(os.Interrupt))
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 9 {
		t.Errorf("a release that was interrupted ends with %v; want exit code 9", err)
	}
	return said.String()
}
