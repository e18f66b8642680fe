package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/internal/lookup"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/workspaces"
)

// A platform user with the role learns who had an address in a network, even when pool and claims are gone. No other
// user does.
func TestHistory_AnswersUsersWithTheRole(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	framework.Create(t, s.platform, gen.Class(s.name, gen.DefaultLength(32), gen.UniqueWithin("network")))
	root := platformPool(s.name, s.cidr, s.name)
	framework.Allocate(t, s.platform, root)
	s.platform.WaitWebhooks(t, s.tenant)
	in := func(network string) []gen.ClaimOption {
		return []gen.ClaimOption{gen.OfClass(s.name), gen.Within("network", network)}
	}
	serves(t, s.tenant, in("probe")...)
	red, blue := s.holds("web-red", in("red")...), s.holds("web-blue", in("blue")...)
	address := blockOf(t, red).Addr().String()
	if red.Status.AllocatedCIDR != blue.Status.AllocatedCIDR {
		t.Fatalf("the networks have %s and %s; want one address", red.Status.AllocatedCIDR, blue.Status.AllocatedCIDR)
	}

	auditor := cli{s.platform.CLI(t, lookup.Role), t}
	asked := []string{"history", address, "--scope", "network=red"}
	framework.Eventually(t, "the role to be known", func(context.Context) error {
		if ran := auditor.Run(t, asked...); ran.Code != 0 {
			return fmt.Errorf("%v: %s", asked, ran.Err)
		}
		return nil
	})
	shows(t, auditor.ok(asked...), "PREFIX", "SCOPE", address+"/32", "network=red", "default/web-red", s.tenant.Path, s.name, "bound")
	framework.Delete(t, s.tenant, red, blue)
	framework.WaitGone(t, s.tenant, red)
	framework.WaitGone(t, s.tenant, blue)
	framework.Delete(t, s.platform, root)
	framework.WaitGone(t, s.platform, root)
	var answer lookup.Answer
	must.Do(t, json.Unmarshal([]byte(auditor.ok(append(asked, "-o", "json")...)), &answer))
	if len(answer.Holders) != 1 || answer.Holders[0].FullName() != "default/web-red" || answer.Holders[0].Cause != "Released" ||
		answer.Holders[0].PoolName != s.name || answer.Holders[0].Scope != "network=red" || answer.Holders[0].Workspace != s.tenant.Path {
		t.Errorf("after all is gone the holders are %+v; want web-red alone, with pool and network", answer.Holders)
	}
	auditor.run("history", address, "--at", answer.Holders[0].From.Format("2006-01-02T15:04:05Z07:00"), "--scope", "network=green").ends(0).says("no holder is known")

	cli{s.platform.CLI(t, "ipam-tenant-viewer"), t}.run(asked...).ends(3).says("grant " + lookup.Role)
	cli{s.tenant.CLI(t), t}.run(asked...).ends(4).says("in the workspace of the platform")
	cli{framework.AdminCLI(t, s.platform.Path), t}.run(append(asked, "--as", "bob")...).ends(3).says("bob")
	s.tells(address)
}

// tells fails the test unless the controller itself refuses users without the role, each with its own status and
// words.
func (s scene) tells(address string) {
	t := s.T
	t.Helper()
	published := &corev1.ConfigMap{}
	must.Do(t, s.platform.Admin(t).Get(t.Context(), client.ObjectKey{Namespace: workspaces.ControllerNamespace, Name: lookup.Address}, published))
	q := lookup.Query{Prefix: netip.MustParsePrefix(address + "/32")}
	for name, tt := range map[string]struct {
		token  string
		status int
		says   string
	}{
		"the tenant": {s.tenant.Config().BearerToken, http.StatusForbidden, lookup.Role},
		"a forger":   {"forged", http.StatusUnauthorized, "does not know the token"},
		"nobody":     {"", http.StatusUnauthorized, "send the token"},
	} {
		cfg := &rest.Config{Host: published.Data[lookup.URL], BearerToken: tt.token, TLSClientConfig: rest.TLSClientConfig{CAData: []byte(published.Data[lookup.CA])}}
		asker := must.Get(rest.HTTPClientFor(cfg))(t)
		request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, cfg.Host+lookup.Path+"?"+q.Values().Encode(), nil))(t)
		response := must.Get(asker.Do(request))(t)
		text := must.Get(io.ReadAll(response.Body))(t)
		must.Do(t, response.Body.Close())
		if response.StatusCode != tt.status || !strings.Contains(string(text), tt.says) {
			t.Errorf("%s is answered with %d %s; want %d with %q", name, response.StatusCode, text, tt.status, tt.says)
		}
	}
}
