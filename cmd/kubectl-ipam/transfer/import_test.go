package transfer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/plan"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/stage"
)

// A claim that holds the block of the plan is the same, whatever it has asked for. If it holds another block, or has
// another owner, it is different.
func TestDifferentClaim_ComparesBlockAndOwner(t *testing.T) {
	t.Parallel()
	there := stage.Bound(gen.Claim("web", gen.OfClass("internal"), gen.Length(28), gen.Unmet(ipamv1alpha1.UnmetRefuse)), "10.0.0.0/28", ipamv1alpha1.PoolRef{Name: "p"})
	there.Status.ClassName = "internal"
	for name, test := range map[string]struct {
		wanted []gen.ClaimOption
		want   string
	}{
		"its block":                   {[]gen.ClaimOption{gen.Address("10.0.0.0/28"), gen.OfClass("internal")}, ""},
		"its block, from its pool":    {[]gen.ClaimOption{gen.Address("10.0.0.0/28"), gen.FromPool("p")}, ""},
		"another block":               {[]gen.ClaimOption{gen.Address("10.0.0.16/28"), gen.OfClass("internal")}, `spec.address is "10.0.0.0/28", not "10.0.0.16/28"`},
		"another pool":                {[]gen.ClaimOption{gen.Address("10.0.0.0/28"), gen.FromPool("q")}, "spec.poolRef"},
		"another class":               {[]gen.ClaimOption{gen.Address("10.0.0.0/28"), gen.OfClass("edge")}, `spec.className is "internal", not "edge"`},
		"a policy that it has not":    {[]gen.ClaimOption{gen.Address("10.0.0.0/28"), gen.OfClass("internal"), gen.Reclaim(ipamv1alpha1.ReclaimRetain)}, "spec.reclaimPolicy"},
		"an owner that it has not":    {[]gen.ClaimOption{gen.Address("10.0.0.0/28"), gen.OfClass("internal"), gen.OwnedBy(ipamv1alpha1.OwnerRef{Kind: "Node", Name: "n"})}, "spec.ownerRef"},
		"a single address of a block": {[]gen.ClaimOption{gen.Address("10.0.0.0"), gen.OfClass("internal")}, `not "10.0.0.0/32"`},
	} {
		got := differentClaim(gen.Claim("web", test.wanted...), there)
		if test.want == "" && got != "" || !strings.Contains(got, test.want) {
			t.Errorf("%s: differentClaim = %q; want %q", name, got, test.want)
		}
	}
	own := stage.Bound(gen.Claim("web", gen.FromPoolIn("root:here", "p")), "10.0.0.0/28", ipamv1alpha1.PoolRef{Name: "p"})
	if got := differentClaim(gen.Claim("web", gen.Address("10.0.0.0/28"), gen.FromPoolIn("root:here", "p")), own); got != "" {
		t.Errorf("a claim that names its own workspace, as the plan does, is %q; want no difference", got)
	}
	if got := differentClaim(gen.Claim("web"), gen.Claim("web")); !strings.Contains(got, "holds no block") || strings.Count(got, " web -n default") != 2 {
		t.Errorf("a claim that waits is %q", got)
	}
}

// If a server goes away while an import creates objects, this decides the exit code, whatever other lines have failed.
func TestImport_EndsWithTheCodeOfALostServer(t *testing.T) {
	t.Parallel()
	for want, ended := range map[int]error{
		exit.Unavailable: &url.Error{Op: "Post", Err: errors.New("connection refused")},
		exit.Aborted:     context.Canceled,
		exit.Conflict:    nil,
	} {
		cancelled := &step{Line: 2, State: stateFailed, Message: "context canceled", code: exit.Aborted}
		if ended == nil {
			cancelled = &step{Line: 2, State: stateFailed, Message: "the address is in use", code: exit.Conflict}
		}
		err := (&planImport{file: "plan.csv"}).failures([]*step{cancelled}, ended)
		if got := exit.CodeOf(err); got != want || !strings.Contains(err.Error(), "plan.csv:2: ") {
			t.Errorf("ended by %v the exit code is %d, and the error %q; want %d, and the line that failed", ended, got, err, want)
		}
	}
}

// If a pool was not created, its claims are not tried. All other claims are.
func TestImport_SkipsClaimsOfAMissingPool(t *testing.T) {
	t.Parallel()
	pool := &step{Line: 2, Kind: "pool", Name: "p", State: stateFailed, code: exit.Conflict, object: gen.Pool("p")}
	want := map[*step]string{
		{State: stateNew, object: gen.Claim("a", gen.FromPool("p"))}:             stateFailed,
		{State: stateUnchanged, object: gen.Claim("b", gen.FromPool("p"))}:       stateUnchanged,
		{State: stateNew, object: gen.Claim("c", gen.FromPool("q"))}:             stateNew,
		{State: stateNew, object: gen.Claim("d", gen.FromPoolIn("root:x", "p"))}: stateNew,
		{State: stateNew, object: gen.Claim("e", gen.OfClass("p"))}:              stateNew,
	}
	skipClaims(append(slices.Collect(maps.Keys(want)), pool))
	for s, state := range want {
		if s.State != state || state == stateFailed && (s.code != exit.Conflict || s.Message != "pool p of line 2 is not ready") {
			t.Errorf("claim %s is %s, %q, with the code %d; want it %s", s.object.GetName(), s.State, s.Message, s.code, state)
		}
	}
}

// If a pool of the plan exists without a block, its line is wrong, and the message says why. So is the line of a pool
// that an existing pool is in the way of. The message says whether that pool has the same block, or overlaps.
func TestImport_ComparesExistingPools(t *testing.T) {
	t.Parallel()
	there := *stage.Ready(gen.Pool("dc", gen.CIDR("10.0.0.0/16")), "10.0.0.0/16", ipamv1alpha1.IPv4, 0, 16)
	for cidr, want := range map[ipamv1alpha1.CIDR]string{
		"10.0.0.0/16": "pool lab repeats 10.0.0.0/16 of pool dc, which is there: a pool has each address once; write claims in pool dc, with a scope for each VRF if its class has uniqueWithin; or import each VRF",
		"10.0.4.0/24": "pool lab (10.0.4.0/24) overlaps pool dc (10.0.0.0/16), which is there: write claims in pool dc",
	} {
		if got, err := (&step{}).comparePool(gen.Pool("lab", gen.CIDR(cidr)), []ipamv1alpha1.IPPool{there}); err != nil || !strings.HasPrefix(got, want) {
			t.Errorf("comparePool of %s = %q, %v; want %q", cidr, got, err, want)
		}
	}
	overlaps, waits, fine := gen.Pool("lab", gen.CIDR("10.0.0.0/22")), gen.Pool("lab", gen.CIDR("10.0.0.0/22")), gen.Pool("lab", gen.CIDR("10.0.0.0/22"))
	overlaps.Status.Conditions = stage.Allocated(ipamv1alpha1.ReasonOverlap, "it overlaps pool dc")
	fine.Status.AllocatedCIDR = "10.0.0.0/22"
	for want, there := range map[string]*ipamv1alpha1.IPPool{"Overlap: it overlaps pool dc": overlaps, "no answer yet": waits, "": fine} {
		said, err := (&step{}).comparePool(gen.Pool("lab", gen.CIDR("10.0.0.0/22")), []ipamv1alpha1.IPPool{*there})
		if err != nil || want == "" && said != "" || !strings.Contains(said, want) || want != "" && !strings.Contains(said, "kubectl ipam pool") {
			t.Errorf("comparePool = %q, %v; want %q", said, err, want)
		}
	}
}

// unmetBy returns the error of a server that refuses a claim for this reason.
func unmetBy(code int32, reason ipamv1alpha1.Reason) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Message: "no",
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: metav1.CauseType(reason), Message: "no"}}}}}
}

// If the server refuses lines, the exit code is that of the refusal.
func TestImport_EndsWithTheCodeOfARefusal(t *testing.T) {
	group, pools := ipamv1alpha1.GroupVersion.WithKind("IPPool").GroupKind(), ipamv1alpha1.Resource("ippools")
	for _, test := range []struct {
		kind string
		err  error
		want int
	}{
		{"pool", apierrors.NewForbidden(pools, "a", errors.New("no")), exit.Forbidden},
		{"pool", apierrors.NewInvalid(group, "a", nil), exit.Invalid},
		{"pool", apierrors.NewAlreadyExists(pools, "a"), exit.Conflict},
		{"pool", apierrors.NewServiceUnavailable("later"), exit.Unavailable},
		{"claim", unmetBy(http.StatusForbidden, ipamv1alpha1.ReasonQuotaExceeded), 7},
		{"claim", unmetBy(http.StatusServiceUnavailable, ipamv1alpha1.ReasonNoOfferingPool), 8},
		{"claim", unmetBy(http.StatusConflict, ipamv1alpha1.ReasonAddressInUse), 5},
	} {
		c := stage.Server(t, interceptor.Funcs{Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return test.err }})
		steps := []*step{{Line: 2, Kind: "pool", State: stateNew, object: gen.Pool("a")}}
		if test.kind == "claim" {
			steps[0] = &step{Line: 2, Kind: "claim", State: stateNew, object: gen.Claim("a")}
		}
		o, found := &planImport{Session: stage.New(t).Session, file: "plan.csv"}, &faults{}
		err := o.preview(t.Context(), c, steps, found)
		if len(found.problems) > 0 {
			err = o.refuse(found, err)
		}
		if exit.CodeOf(err) != test.want || test.want != exit.Unavailable && !strings.Contains(err.Error(), "plan.csv:2: ") {
			t.Errorf("a %s refused by %v ends with %d, %v; want %d", test.kind, test.err, exit.CodeOf(err), err, test.want)
		}
	}
}

// If the server goes away, the output says how many lines were created, may have been created, and were not tried.
func TestImport_CountsLinesWhenTheServerGoesAway(t *testing.T) {
	s := stage.New(t)
	pools := []string{"a", "b", "c", "d", "e"}
	steps := make([]*step, len(pools))
	for i, name := range pools {
		steps[i] = &step{Line: 2 + i, Kind: "pool", Name: name, State: stateNew, object: gen.Pool(name)}
	}
	steps[0].State = stateCreated
	o := &planImport{Session: s.Session, file: "plan.csv"}
	gone := &url.Error{Op: "Post", URL: "https://kcp", Err: errors.New("connection refused")}
	for i, err := range []error{nil, gone, fmt.Errorf("create claim c: %w", context.Canceled), apierrors.NewInvalid(ipamv1alpha1.GroupVersion.WithKind("IPPool").GroupKind(), "d", nil)} {
		if got := o.store(t.Context(), steps[i], err); (got != nil) != (i == 1 || i == 2) {
			t.Errorf("after %v the import goes on: %t", err, got == nil)
		}
	}
	err := o.show(steps, o.failures(steps, gone))
	if got, want := s.Said.String(), "plan.csv: 1 created, 1 failed, 2 unknown, 1 untried\n"; got != want {
		t.Errorf("the import says %q; want %q", got, want)
	}
	if said := err.Error(); exit.CodeOf(err) != exit.Unavailable || strings.Count(said, "refused") != 1 || strings.Contains(said, "canceled") || !strings.Contains(said, "plan.csv:5: ") || !strings.Contains(said, "import it again") {
		t.Errorf("the error is %q", said)
	}
}

// Even without a terminal, a long import prints its progress every few seconds.
func TestImport_PrintsItsProgress(t *testing.T) {
	s := stage.New(t)
	now := stage.Noon
	s.Now = func() time.Time { now = now.Add(time.Second); return now }
	steps := make([]*step, 20)
	for i := range steps {
		steps[i] = &step{Kind: "claim", State: stateNew}
	}
	err := (&planImport{Session: s.Session}).each(t.Context(), "creating", "claim", steps, func(context.Context, *step) error { return nil })
	if got, want := s.Said.String(), "creating: 5 of 20 claims\ncreating: 10 of 20 claims\ncreating: 15 of 20 claims\ncreating: 20 of 20 claims\n"; err != nil || got != want {
		t.Errorf("the import says %q, %v; want %q", got, err, want)
	}
}

// A single run names all faults: in cells, names and overlaps, compared with existing objects, and refusals by the
// server. The server is not asked about a line that is wrong already.
func TestImport_NamesAllFaultsAtOnce(t *testing.T) {
	s := stage.New(t)
	there := stage.Ready(gen.Pool("lab", gen.CIDR("192.0.2.0/24")), "192.0.2.0/24", ipamv1alpha1.IPv4, 0, 24)
	var creates sync.Map // the import creates several objects at once
	c := stage.Server(t, interceptor.Funcs{Create: func(_ context.Context, _ client.WithWatch, object client.Object, _ ...client.CreateOption) error {
		creates.Store(object.GetName(), true)
		if object.GetName() == "used" {
			return unmetBy(http.StatusConflict, ipamv1alpha1.ReasonAddressInUse)
		}
		return nil
	}}, there)
	file := filepath.Join(t.TempDir(), "plan.csv")
	const table = "kind,name,cidr,pool\npool,lab,192.0.2.0/25,\nclaim,cell,192.0.2.300,\nclaim,DB 1,192.0.2.1,\nclaim,used,192.0.2.2,\nclaim,fine,192.0.2.3,\n"
	must.Do(t, os.WriteFile(file, []byte(table), 0o600))
	o := &planImport{Session: s.Session, file: file}
	p, wrong, err := o.read()
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	steps, found := stepsOf(p), &faults{}
	found.add(exit.Invalid, wrong...)
	must.Do(t, errors.Join(compare(t.Context(), c, steps, found), o.preview(t.Context(), c, steps, found)))
	refused := o.refuse(found, nil)
	for _, want := range []string{
		`:2: pool lab is there, and spec.cidr is "192.0.2.0/24", not "192.0.2.0/25". That cannot be changed in a pool`,
		`:3: cidr: "192.0.2.300" is no block`, `:4: "DB 1" is no name of a claim`, ":5: claim default/used: ", "nothing is imported",
	} {
		if !strings.Contains(refused.Error(), want) {
			t.Errorf("the error is\n%v\nwant in it %q", refused, want)
		}
	}
	if exit.CodeOf(refused) != exit.Invalid || strings.Contains(refused.Error(), "kubectl edit") {
		t.Errorf("the import ends with %d: %v; want %d, without kubectl edit", exit.CodeOf(refused), refused, exit.Invalid)
	}
	for name, want := range map[string]bool{"DB 1": false, "lab": false, "fine": true} {
		if _, got := creates.Load(name); got != want {
			t.Errorf("the server was asked about %s: %v, want %v", name, got, want)
		}
	}
}

// If a message says what to do, no advice follows that says the same in other words.
func TestImport_AdvisesOnce(t *testing.T) {
	for message, want := range map[string]string{
		"there is no pool \"p\" here; name one that exists, create it, or ask its owner to share it": "PoolNotFound: there is no pool \"p\" here; name one that exists, create it, or ask its owner to share it",
		"pool \"p\" is not ready": "PoolNotFound: pool \"p\" is not ready; " + ipamv1alpha1.ReasonPoolNotFound.Remedy(),
	} {
		unmet := gen.Claim("a")
		unmet.Status.Conditions = stage.Allocated(ipamv1alpha1.ReasonPoolNotFound, message)
		c := stage.Server(t, interceptor.Funcs{Create: func(_ context.Context, _ client.WithWatch, object client.Object, _ ...client.CreateOption) error {
			unmet.DeepCopyInto(object.(*ipamv1alpha1.IPClaim))
			return nil
		}})
		err := (&planImport{}).ask(t.Context(), c, &step{Kind: "claim", object: gen.Claim("a")}, false)
		if err == nil || err.Error() != want {
			t.Errorf("the error is %v; want %s", err, want)
		}
	}
}

// Ranges are created from the largest to the smallest, and then blocks. If a range could not be created, the claims in
// it are not tried.
func TestImport_CreatesRangesFirst(t *testing.T) {
	t.Parallel()
	red, app := gen.Within("network", "red"), gen.Within("network", "red", "subnet", "app")
	p := &plan.Plan{}
	for i, claim := range []*ipamv1alpha1.IPClaim{
		gen.Claim("web", gen.Address("10.112.0.1"), app), gen.Claim("hold-app", gen.ForRange(), gen.Address("10.112.0.0/24"), app),
		gen.Claim("other", gen.Address("10.0.0.1")), gen.Claim("hold", gen.ForRange(), gen.Address("10.112.0.0/16"), red),
	} {
		p.Claims = append(p.Claims, plan.Claim{IPClaim: claim, Line: i + 1})
	}
	steps := stepsOf(p)
	var got []string
	for _, level := range rangesFirst(steps) {
		for _, s := range level {
			s.State = stateNew
			got = append(got, s.Name)
		}
		got = append(got, "|")
	}
	if said := strings.Join(got, " "); said != "hold | hold-app | web other |" {
		t.Errorf("claims are created in the order %s; want ranges first, the largest before", said)
	}
	steps[3].State, steps[3].code = stateFailed, exit.Conflict
	skipClaims(steps)
	for i, want := range []string{stateFailed, stateFailed, stateNew} {
		if s := steps[i]; s.State != want || want == stateFailed && (s.code != exit.Conflict || s.Message != "the range of claim hold of line 4 is not there") {
			t.Errorf("without the range, line %d is %s: %s; want %s", s.Line, s.State, s.Message, want)
		}
	}
}

// If nobody can answer a claim when it is checked, nor when it is created, it is created again a moment later.
func TestImport_TriesAgainIfNobodyCanTell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		c := stage.Server(t, interceptor.Funcs{Create: func(ctx context.Context, server client.WithWatch, object client.Object, options ...client.CreateOption) error {
			if asked++; asked <= 3 {
				return unmetBy(http.StatusServiceUnavailable, ipamv1alpha1.ReasonError)
			}
			claim := object.(*ipamv1alpha1.IPClaim)
			stage.Bound(claim, "10.0.0.7/32", ipamv1alpha1.PoolRef{Name: "p"})
			return server.Create(ctx, claim, options...)
		}})
		steps, found := []*step{{Line: 2, Kind: "claim", State: stateNew, object: gen.Claim("a", gen.Address("10.0.0.7"))}}, &faults{}
		o := &planImport{Session: stage.New(t).Session, file: "plan.csv", wait: 30 * time.Second}
		must.Do(t, o.preview(t.Context(), c, steps, found))
		if len(found.problems) > 0 {
			t.Errorf("the check finds %v; want it to leave the answer to the CREATE", found.problems)
		}
		must.Do(t, o.create(t.Context(), c, steps))
		if steps[0].State != stateCreated || asked != 4 {
			t.Errorf("after %d requests the claim is %s: %s; want it created by the fourth", asked, steps[0].State, steps[0].Message)
		}
	})
}
