package consumer

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// pod is the consumer of the claims here, as a server shows it.
func pod(change func(map[string]any)) live.Sight {
	obj := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"name": "web", "namespace": "default", "uid": "its-uid"},
		"status":   map[string]any{},
	}}
	if change != nil {
		change(obj.Object)
	}
	return live.Sight{Verdict: live.Alive, Object: obj}
}

func withStatus(field string, value any) live.Sight {
	return pod(func(obj map[string]any) { obj["status"] = map[string]any{field: value} })
}

func withCondition(kind, status, reason string) live.Sight {
	return withStatus("conditions", []any{"hostile", map[string]any{"type": kind, "status": status, "reason": reason}})
}

func claimOf(uid string) *ipamv1alpha1.IPClaim {
	claim := gen.Claim("web", gen.OwnedBy(ipamv1alpha1.OwnerRef{Kind: "Pod", Namespace: "default", Name: "web"}))
	claim.Spec.OwnerRef.UID = types.UID(uid)
	claim.Status.AllocatedCIDR = "10.0.0.16/28"
	return claim
}

func TestJudge(t *testing.T) {
	ending := pod(func(obj map[string]any) {
		obj["metadata"].(map[string]any)["deletionTimestamp"] = "2026-01-01T00:00:00Z"
	})
	reports := func(addresses ...any) live.Sight {
		var list []any
		for _, address := range addresses {
			list = append(list, map[string]any{"ip": address})
		}
		return withStatus("podIPs", list)
	}
	all := Options{Terminating: true, Disrupted: true, Reported: map[string]string{"Pod": "status.podIPs.ip"}}
	usual := Defaults()
	for _, tt := range []struct {
		name  string
		sight live.Sight
		uid   string
		opts  Options
		want  ipamv1alpha1.Reason
	}{
		{"it is well", pod(nil), "", all, ""},
		{"it is well, by its UID", pod(nil), "its-uid", all, ""},
		{"it is gone", live.Sight{Verdict: live.Gone}, "", Options{}, ipamv1alpha1.ReasonConsumerNotFound},
		{"nobody can say", live.Sight{}, "", all, ""},
		{"nobody may say", live.Sight{Verdict: live.Hidden}, "", all, ""},
		{"it is another one", pod(nil), "another", Options{}, ipamv1alpha1.ReasonConsumerReplaced},
		{"it terminates", ending, "", all, ipamv1alpha1.ReasonConsumerTerminating},
		{"it terminates, which is no rule", ending, "", usual, ""},
		{"it is lost", withCondition("Lost", "True", ""), "", usual, ipamv1alpha1.ReasonConsumerLost},
		{"its node is gone", withCondition("DisruptionTarget", "True", "DeletionByPodGC"), "", usual, ipamv1alpha1.ReasonConsumerLost},
		{"its node ends it", withCondition("DisruptionTarget", "True", "DeletionByTaintManager"), "", usual, ipamv1alpha1.ReasonConsumerDisrupted},
		{"it is disrupted, which is no rule", withCondition("DisruptionTarget", "True", "DeletionByTaintManager"), "", Options{}, ""},
		{"it is being evicted, and runs", withCondition("DisruptionTarget", "True", "EvictionByEvictionAPI"), "", usual, ""},
		{"it is not lost", withCondition("Lost", "False", ""), "", usual, ""},
		{"its conditions are none", withStatus("conditions", "hostile"), "", usual, ""},
		{"its status is none", pod(func(obj map[string]any) { obj["status"] = int64(7) }), "", all, ""},
		{"it reports another address", reports("10.0.0.32"), "", all, ipamv1alpha1.ReasonConsumerAddressMismatch},
		{"it reports another address, which is no rule", reports("10.0.0.32"), "", usual, ""},
		{"it reports an address of the claim", reports("10.0.0.17"), "", all, ""},
		{"it reports the claim's among others", reports("2001:db8::1", "10.0.0.31/28"), "", all, ""},
		{"it reports it in the form of IPv6", reports("::ffff:10.0.0.17"), "", all, ""},
		{"it reports none yet", reports(), "", all, ""},
		{"it reports what is no address", reports("soon", int64(5), map[string]any{}), "", all, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.opts.judge(claimOf(tt.uid), tt.sight); got.rule != tt.want {
				t.Errorf("rule %q (%s), want %q", got.rule, got.what, tt.want)
			}
		})
	}
}

// A claim without a block cannot be reported wrongly.
func TestJudge_UnboundClaimHasNoAddressToCompare(t *testing.T) {
	claim := claimOf("")
	claim.Status.AllocatedCIDR = ""
	opts := Options{Reported: map[string]string{"Pod": "status.podIP"}}
	if got := opts.judge(claim, withStatus("podIP", "10.9.9.9")); got.rule != "" {
		t.Errorf("rule %q, want none", got.rule)
	}
}

func TestValidate(t *testing.T) {
	for path, ok := range map[string]bool{"status.ip": true, "": false} {
		if err := (Options{Reported: map[string]string{"Pod": path}}).Validate(); (err == nil) != ok {
			t.Errorf("a path %q: %v", path, err)
		}
	}
	if err := (Options{Interval: -1}).Validate(); err == nil {
		t.Error("an interval below 0 is accepted")
	}
}

// Whatever a consumer reports, what is read of it are addresses, and none is made up.
func FuzzReported(f *testing.F) {
	f.Add(`{"status": {"podIPs": [{"ip": "10.0.0.7"}, {"ip": "2001:db8::7"}]}}`, "status.podIPs.ip", "10.0.0.0/28")
	f.Add(`{"status": {"address": "10.0.0.7/24"}}`, "status.address", "10.0.0.7/32")
	f.Add(`{"a": [[["::ffff:10.0.0.1", 7, null, {"a": "fe80::1%eth0"}]]]}`, "a", "x")
	f.Add(`{"": {"": "1.2.3.4/"}}`, ".", "0.0.0.0/0")
	f.Fuzz(func(t *testing.T, object, path, allocated string) {
		var status map[string]any
		if json.Unmarshal([]byte(object), &status) != nil {
			return
		}
		addresses := reported(status, strings.Split(path, "."))
		for _, address := range addresses {
			if !address.IsValid() || address.Is4In6() || address.Zone() != "" {
				t.Errorf("%q at %q is read as %s", object, path, address)
			}
		}
		if found := mismatch(allocated, addresses); found.rule != "" && (len(addresses) == 0 || found.refusal("Pod web").Message == "") {
			t.Errorf("%q at %q mismatches %q: %+v", object, path, allocated, found)
		}
	})
}

// Claims come, lose their consumers and go, and nothing stays of them.
func TestBrake_ForgetsWhoIsGone(t *testing.T) {
	t.Parallel()
	b := &brake{}
	at := time.Unix(0, 0)
	for day := range 10 {
		at = at.Add(window + time.Second)
		for i := range 5 {
			b.note("a", types.UID(fmt.Sprint(day, "/", i)), true, at)
		}
		b.note("b", "x", day == 0, at)
	}
	if n := len(b.abandoned["a"]); n != 5 {
		t.Errorf("%d claims count, want those of the last window, 5", n)
	}
	if _, kept := b.abandoned["b"]; kept {
		t.Error("a workspace is remembered that has no abandoned claim")
	}
	if b.free("a", 4, at) || !b.free("a", 5, at) {
		t.Error("the brake does not count the claims of the last window")
	}
}

func TestStops(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	s := &stops{clock: clock}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(s)
	wantNamed := func(want int) {
		t.Helper()
		families := must.Get(registry.Gather())(t)
		named := 0
		for _, f := range families {
			named += len(f.GetMetric())
		}
		if named != want {
			t.Errorf("%d workspaces are named, want %d", named, want)
		}
	}
	s.hold("a")
	s.hold("b")
	s.let("a")
	wantNamed(1)
	clock.SetTime(clock.Now().Add(window + time.Second))
	wantNamed(0)
	for i := range 2 * maxNamed {
		s.hold(ledger.ClusterName(fmt.Sprint(i)))
	}
	wantNamed(maxNamed)
}
