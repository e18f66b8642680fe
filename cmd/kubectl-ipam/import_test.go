package main

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/gen"
)

// planFile is a file with a plan.
func planFile(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// A plan is checked by itself without a server.
func TestImport_WithoutServer(t *testing.T) {
	for format, name := range map[string]string{"": "import_table", "json": "import_json", "csv": "import_csv", "name": "import_name"} {
		s := newStage(t)
		t.Chdir("testdata")
		args := []string{"import", "plan.csv", "--dry-run=client"}
		if format != "" {
			args = append(args, "-o", format)
		}
		code := s.execute(t.Context(), args)
		t.Chdir("..")
		if code != exitOK || s.errs.String() != "plan.csv: 5 valid\n" {
			t.Fatalf("%v ended with %d and said %q", args, code, s.errs)
		}
		golden(t, name, s.out.String())
	}
}

// A plan with many wrong lines names fifty of them, and as JSON all.
func TestImport_ManyWrongLines(t *testing.T) {
	file := planFile(t, "plan.csv", "kind,cidr\n"+strings.Repeat("claim,10.0.0.1/8\n", 60))
	s := newStage(t)
	code := s.execute(t.Context(), []string{"import", file, "--dry-run=client", "-o", "json"})
	if lines := strings.Count(s.errs.String(), "host bits"); code != exitInvalid || lines != 50 || !strings.Contains(s.errs.String(), "10 lines more are wrong") {
		t.Errorf("it ended with %d and names %d lines: %s", code, lines, s.errs)
	}
	if lines := strings.Count(s.out.String(), `"line"`); lines != 60 {
		t.Errorf("as JSON it names %d lines; want 60", lines)
	}
}

func TestImport_Usage(t *testing.T) {
	csv := planFile(t, "plan.csv", "kind,cidr\nclaim,10.0.0.1\n")
	for name, test := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no plan":           {[]string{planFile(t, "plan.txt", "")}, exitUsage, "give a file whose name ends with .csv, .yaml or .json"},
		"no file":           {[]string{"/nowhere/plan.csv"}, exitNotFound, "no such file"},
		"an odd dry run":    {[]string{csv, "--dry-run=perhaps"}, exitUsage, "write client or server"},
		"an odd wait":       {[]string{csv, "--wait", "0s"}, exitUsage, "write a duration such as 30s"},
		"an odd form":       {[]string{csv, "-o", "xml"}, exitUsage, "write json or yaml or name or csv"},
		"an unknown column": {[]string{csv, "--column", "prefix=CIDR"}, exitUsage, `there is no column "prefix"`},
		"a column twice":    {[]string{csv, "--column", "name=cidr,pool=CIDR"}, exitUsage, `--column reads "CIDR" as name and as pool`},
		"a missing column":  {[]string{csv, "--column", "cidr=Prefix"}, exitInvalid, `:1: --column cidr=Prefix: the table has no column "Prefix"`},
		"an odd default":    {[]string{csv, "--default", "vrf=a"}, exitUsage, `there is no column "vrf"`},
		"columns of YAML":   {[]string{planFile(t, "plan.yaml", "# nothing\n"), "--default", "kind=claim"}, exitUsage, "--default is for tables"},
		"in no pool":        {[]string{csv}, exitInvalid, ":2: 10.0.0.1/32 is in no pool of this plan"},
		"empty":             {[]string{planFile(t, "plan.yaml", "# nothing\n")}, exitInvalid, "describes nothing"},
		"columns alone":     {[]string{planFile(t, "plan.csv", "kind,cidr\n")}, exitInvalid, "describes nothing"},
	} {
		s := newStage(t)
		if code := s.execute(t.Context(), append([]string{"import"}, test.args...)); code != test.code || !strings.Contains(s.errs.String(), test.want) || s.out.Len() > 0 {
			t.Errorf("%s: it ended with %d and said %q; want %d and %q", name, code, s.errs, test.code, test.want)
		}
	}
}

// A file that is too large is refused before it is read as a plan.
func TestImport_TooLarge(t *testing.T) {
	file := planFile(t, "plan.csv", "kind,cidr\n")
	if err := os.Truncate(file, mostPlan+1); err != nil {
		t.Fatal(err)
	}
	s := newStage(t)
	if code := s.execute(t.Context(), []string{"import", file}); code != exitInvalid || !strings.Contains(s.errs.String(), "is larger than 64 MiB") {
		t.Errorf("it ended with %d and said %q", code, s.errs)
	}
}

// A claim that holds the block of the plan is the same, whatever it asked for; one that holds
// another, or has another owner, is not.
func TestDifferentClaim(t *testing.T) {
	t.Parallel()
	there := bound(gen.Claim("web", gen.OfClass("internal"), gen.Length(28), gen.Unmet(ipamv1alpha1.UnmetRefuse)), "10.0.0.0/28", ipamv1alpha1.PoolRef{Name: "p"})
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
	own := bound(gen.Claim("web", gen.FromPoolIn("root:here", "p")), "10.0.0.0/28", ipamv1alpha1.PoolRef{Name: "p"})
	if got := differentClaim(gen.Claim("web", gen.Address("10.0.0.0/28"), gen.FromPoolIn("root:here", "p")), own); got != "" {
		t.Errorf("a claim that names its own workspace, as the plan does, is %q; want no difference", got)
	}
	if got := differentClaim(gen.Claim("web"), gen.Claim("web")); !strings.Contains(got, "holds no block") {
		t.Errorf("a claim that waits is %q", got)
	}
}

// A server that goes away while an import creates decides how it ends, whatever failed meanwhile.
func TestImport_EndedBy(t *testing.T) {
	t.Parallel()
	for want, ended := range map[int]error{
		exitUnavailable: &url.Error{Op: "Post", Err: errors.New("connection refused")},
		exitAborted:     context.Canceled,
		exitConflict:    nil,
	} {
		cancelled := &step{Line: 2, State: stateFailed, Message: "context canceled", code: exitAborted}
		if ended == nil {
			cancelled = &step{Line: 2, State: stateFailed, Message: "the address is in use", code: exitConflict}
		}
		err := (&planImport{file: "plan.csv"}).failures([]*step{cancelled}, ended)
		if got := exitCode(err); got != want || !strings.Contains(err.Error(), "plan.csv:2: ") {
			t.Errorf("ended by %v the exit code is %d, and the error %q; want %d, and the line that failed", ended, got, err, want)
		}
	}
}

// A claim from a pool that was not created is not tried; any other claim is.
func TestImport_SkipClaims(t *testing.T) {
	t.Parallel()
	pool := &step{Line: 2, Kind: "pool", Name: "p", State: stateFailed, code: exitConflict, object: gen.Pool("p")}
	want := map[*step]string{
		{State: stateNew, object: gen.Claim("a", gen.FromPool("p"))}:             stateFailed,
		{State: stateUnchanged, object: gen.Claim("b", gen.FromPool("p"))}:       stateUnchanged,
		{State: stateNew, object: gen.Claim("c", gen.FromPool("q"))}:             stateNew,
		{State: stateNew, object: gen.Claim("d", gen.FromPoolIn("root:x", "p"))}: stateNew,
		{State: stateNew, object: gen.Claim("e", gen.OfClass("p"))}:              stateNew,
	}
	skipClaims(append(slices.Collect(maps.Keys(want)), pool))
	for s, state := range want {
		if s.State != state || state == stateFailed && (s.code != exitConflict || s.Message != "pool p of line 2 is not ready") {
			t.Errorf("claim %s is %s, %q, with the code %d; want it %s", s.object.GetName(), s.State, s.Message, s.code, state)
		}
	}
}

// A pool that exists and has no block is a line that is wrong, with the reason.
func TestImport_PoolWithoutBlock(t *testing.T) {
	t.Parallel()
	overlaps, waits, fine := gen.Pool("lab", gen.CIDR("10.0.0.0/22")), gen.Pool("lab", gen.CIDR("10.0.0.0/22")), gen.Pool("lab", gen.CIDR("10.0.0.0/22"))
	overlaps.Status.Conditions = allocated(ipamv1alpha1.ReasonOverlap, "it overlaps pool dc")
	fine.Status.AllocatedCIDR = "10.0.0.0/22"
	for want, there := range map[string]*ipamv1alpha1.IPPool{"Overlap: it overlaps pool dc": overlaps, "no answer yet": waits, "": fine} {
		said, err := (&step{}).comparePool(gen.Pool("lab", gen.CIDR("10.0.0.0/22")), []ipamv1alpha1.IPPool{*there})
		if err != nil || want == "" && said != "" || !strings.Contains(said, want) || want != "" && !strings.Contains(said, "kubectl ipam pool") {
			t.Errorf("comparePool = %q, %v; want %q", said, err, want)
		}
	}
}

// What the server refuses decides how an import ends.
func TestImport_RefusedBy(t *testing.T) {
	group, pools := ipamv1alpha1.GroupVersion.WithKind("IPPool").GroupKind(), ipamv1alpha1.Resource("ippools")
	unmetBy := func(code int32, reason ipamv1alpha1.Reason) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Message: "no",
			Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: metav1.CauseType(reason), Message: "no"}}}}}
	}
	for _, test := range []struct {
		kind string
		err  error
		want int
	}{
		{"pool", apierrors.NewForbidden(pools, "a", errors.New("no")), exitForbidden},
		{"pool", apierrors.NewInvalid(group, "a", nil), exitInvalid},
		{"pool", apierrors.NewAlreadyExists(pools, "a"), exitConflict},
		{"pool", apierrors.NewServiceUnavailable("later"), exitUnavailable},
		{"claim", unmetBy(http.StatusForbidden, ipamv1alpha1.ReasonQuotaExceeded), 7},
		{"claim", unmetBy(http.StatusServiceUnavailable, ipamv1alpha1.ReasonNoOfferingPool), 8},
		{"claim", unmetBy(http.StatusConflict, ipamv1alpha1.ReasonAddressInUse), 5},
	} {
		c := estateServer(t, interceptor.Funcs{Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return test.err }})
		steps := []*step{{Line: 2, Kind: "pool", State: stateNew, object: gen.Pool("a")}}
		if test.kind == "claim" {
			steps[0] = &step{Line: 2, Kind: "claim", State: stateNew, object: gen.Claim("a")}
		}
		err := (&planImport{session: newStage(t).session, file: "plan.csv"}).preview(t.Context(), c, steps)
		if exitCode(err) != test.want || test.want != exitUnavailable && !strings.Contains(err.Error(), "plan.csv:2: ") {
			t.Errorf("a %s refused by %v ends with %d, %v; want %d", test.kind, test.err, exitCode(err), err, test.want)
		}
	}
}
