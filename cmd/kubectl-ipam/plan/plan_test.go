package plan_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/plan"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// read reads a table and checks it, as import does.
func read(text string, options plan.Options) (*plan.Plan, []plan.Problem) {
	options.Namespace = "default"
	p, wrong := plan.ReadCSV([]byte(text), options)
	if len(wrong) == 0 {
		wrong = p.Check()
	}
	return p, wrong
}

// blocks returns name and block of each pool and claim of a plan.
func blocks(p *plan.Plan) []string {
	var list []string
	for _, pool := range p.Pools {
		list = append(list, strings.TrimSpace(fmt.Sprintln(pool.Line, pool.Name, pool.Spec.CIDR, pool.Spec.ExcludedCIDRs)))
	}
	for _, claim := range p.Claims {
		from := claim.Spec.ClassName
		if claim.Spec.PoolRef != nil {
			from = claim.Spec.PoolRef.Name
		}
		list = append(list, strings.TrimSpace(fmt.Sprintln(claim.Line, claim.Namespace, claim.Name, claim.Spec.Address, from)))
	}
	return list
}

// Tables as spreadsheets and other programs write them are read as what they mean.
func TestReadCSV_ReadsTablesOfOtherPrograms(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		text    string
		options plan.Options
		want    []string
	}{
		"in any order": {text: "cidr,kind,name\n10.0.0.0/24,claim,a\n10.0.0.0/16,pool,p\n", want: []string{"3 p 10.0.0.0/16 []", "2 default a 10.0.0.0/24 p"}},
		"BOM, CRLF, capitals, spaces": {text: "\ufeffKind, Name ,CIDR\r\nPool, p , 10.0.0.0/16\r\n\r\n# words\r\nCLAIM,a,10.0.3.0/24\r\n",
			want: []string{"2 p 10.0.0.0/16 []", "5 default a 10.0.3.0/24 p"}},
		"quotes, and lines within": {text: "kind,name,cidr,labels\npool,p,10.0.0.0/16,\"site=fra,\nteam=web\"\nclaim,\"a\",\"10.0.0.7\",\n",
			want: []string{"2 p 10.0.0.0/16 []", "4 default a 10.0.0.7 p"}},
		"IPv6 in any form": {text: "kind,name,cidr\npool,p,2001:0DB8::/32\nclaim,a,2001:DB8:0:0::/64\nclaim,b,2001:db8:1::7/128\n",
			want: []string{"2 p 2001:db8::/32 []", "3 default a 2001:db8::/64 p", "4 default b 2001:db8:1::7 p"}},
		"names of blocks": {text: "kind,cidr\npool,10.0.0.0/16\nclaim,10.0.1.0/24\nclaim,10.0.2.7\n",
			want: []string{"2 net-10-0-0-0-16 10.0.0.0/16 []", "3 default net-10-0-1-0-24 10.0.1.0/24 net-10-0-0-0-16", "4 default net-10-0-2-7 10.0.2.7 net-10-0-0-0-16"}},
		"exclusions of a pool without a name": {text: "kind,name,cidr,domain,exclude\npool,,10.0.0.0/8,d,10.1.0.0/24\npool,q,10.1.0.0/16,d,\n",
			want: []string{"2 net-10-0-0-0-8 10.0.0.0/8 [10.1.0.0/24]", "3 q 10.1.0.0/16 []"}},
		"exclusions, and ranges": {text: "kind,name,cidr,pool\nexclusion,,10.0.0.0/24,p\nexclusion,printers,10.0.9.254-10.0.10.1,\npool,p,10.0.0.0/16,\n",
			want: []string{"4 p 10.0.0.0/16 [10.0.0.0/24 10.0.9.254/31 10.0.10.0/31]"}},
		"a mask beside": {text: "Subnet,Mask,Section\n10.0.0.0,24,x\n", options: plan.Options{
			Columns: map[string]string{"Subnet": "cidr", "Mask": "length"}, Ignore: []string{"section"}, Defaults: map[string]string{"kind": "claim", "pool": "p"},
		}, want: []string{"2 default net-10-0-0-0-24 10.0.0.0/24 p"}},
		"hosts with the length of their network": {text: "kind,host,cidr,name\npool,,10.0.0.0/16,p\nclaim,10.0.1.9/24,,\n",
			want: []string{"2 p 10.0.0.0/16 []", "3 default net-10-0-1-9 10.0.1.9 p"}},
		"all addresses": {text: "kind,name,cidr\npool,four,0.0.0.0/0\npool,six,::/0\nclaim,a,10.0.0.0/8\nclaim,b,2000::/3\n",
			want: []string{"2 four 0.0.0.0/0 []", "3 six ::/0 []", "4 default a 10.0.0.0/8 four", "5 default b 2000::/3 six"}},
		"the least used pool": {text: "kind,name,cidr,strategy\npool,p,10.0.0.0/16,leastutilized\n", want: []string{"2 p 10.0.0.0/16 []"}},
		"a host twice":        {text: "kind,name,cidr,host\npool,p,10.0.0.0/16,\nclaim,a,10.0.0.1/32,10.0.0.1/24\n", want: []string{"2 p 10.0.0.0/16 []", "3 default a 10.0.0.1 p"}},
		"the smallest pool": {text: "kind,name,cidr,domain\npool,p,10.0.0.0/8,d\npool,q,10.1.0.0/16,d\nclaim,a,10.1.1.0/24,\n",
			want: []string{"2 p 10.0.0.0/8 []", "3 q 10.1.0.0/16 []", "4 default a 10.1.1.0/24 q"}},
	} {
		p, wrong := read(test.text, test.options)
		if len(wrong) > 0 {
			t.Errorf("%s: the problems are %v; want none", name, wrong)
			continue
		}
		if diff := cmp.Diff(test.want, blocks(p)); diff != "" {
			t.Errorf("%s: the plan is wrong (-want +got):\n%s", name, diff)
		}
	}
}

// Each problem is reported with its line, and with what to write instead.
func TestReadCSV_SaysWhatToWriteInstead(t *testing.T) {
	t.Parallel()
	const pool = "kind,name,cidr,pool,class\npool,p,10.0.0.0/16,,\n"
	for name, test := range map[string]struct{ text, want string }{
		"nothing":                {"", "1: there are no columns: the file is empty"},
		"an unknown column":      {"kind,name,prefix\n", `1: there is no column "prefix"`},
		"a column in Cyrillic":   {"kind,n\u0430me,cidr\n", "1: there is no column \"n\u0430me\" (\"n\\u0430me\")"},
		"a column twice":         {"kind,cidr,CIDR\n", "1: the column cidr is there twice"},
		"host bits":              {pool + "claim,a,10.0.0.7/24,,\n", "3: cidr: 10.0.0.7/24 has host bits set: write 10.0.0.0/24 for the network, or 10.0.0.7 for the address"},
		"a length of 0":          {"kind,name,cidr,min-length\npool,p,10.0.0.0/8,0\n", `2: min-length: "0" is no prefix length: write 1 to 32`},
		"host bits of all":       {pool + "claim,a,10.0.0.7/0,,\n", "3: cidr: 10.0.0.7/0 has host bits set: write 0.0.0.0/0 for the network"},
		"a length of 33":         {pool + "claim,a,10.0.0.0/33,,\n", "3: cidr: 10.0.0.0/33 has no such prefix length: write 1 to 32"},
		"a length below zero":    {pool + "claim,a,10.0.0.0/-1,,\n", "write 1 to 32"},
		"too many octets":        {pool + "claim,a,10.0.0.0.0/8,,\n", `"10.0.0.0.0/8" is no block`},
		"an octet in octal":      {pool + "claim,a,10.0.0.010,,\n", `"10.0.0.010" is no block`},
		"a zone":                 {pool + "claim,a,fe80::1%eth0,,\n", "write fe80::1"},
		"IPv4 in IPv6":           {pool + "claim,a,::ffff:10.0.0.1,,\n", "such as 10.0.0.1"},
		"no block":               {pool + "claim,a,,,\n", "3: cidr: there is no block"},
		"an unknown kind":        {pool + "net,a,10.0.0.0/24,,\n", `3: kind: "net" is none of its words: write pool, claim or exclusion`},
		"no kind":                {pool + ",a,10.0.0.0/24,,\n", "--default kind=claim"},
		"too many cells":         {pool + "claim,a,10.0.0.0/24,,,,\n", "3: it has 7 cells, and the table has 5 columns"},
		"a quote that is alone":  {pool + "claim,a\"b,10.0.0.0/24,,\n", "3: a quote stands alone"},
		"a quote that is open":   {pool + "claim,\"a,10.0.0.0/24,,\n", "a quote stands alone"},
		"a cell for other rows":  {"kind,name,cidr,gateway\nclaim,a,10.0.0.0/24,10.0.0.1\n", "2: gateway: it says nothing about a row of kind claim"},
		"a host of another cidr": {"kind,name,cidr,host\nclaim,a,10.0.0.1,10.0.0.2/24\n", `2: host: 10.0.0.2/24 is not 10.0.0.1: leave host or cidr empty`},
		"a name twice":           {pool + "claim,a,10.0.0.0/24,,\nclaim,a,10.0.1.0/24,,\n", "4: the claim default/a is on line 3 already"},
		"overlap with a nephew":  {pool + "claim,a,10.0.0.0/24,,\nclaim,c,10.0.0.0/28,,\nclaim,b,10.0.0.128/25,,\n", "3: claim default/a (10.0.0.0/24) contains claim default/c (10.0.0.0/28, line 4), default/b (10.0.0.128/25, line 5)"},
		"overlapping pools":      {pool + "pool,q,10.0.4.0/24,,\n", "2: pool p (10.0.0.0/16) contains pool q (10.0.4.0/24, line 3): write the innermost as claims in pool p; or give each pool inside its parent, in the column pool or as spec.parentPoolRef; or put the pools in one addressDomain"},
		"outside of its pool":    {pool + "claim,a,10.9.0.0/24,p,\n", "3: claim default/a: 10.9.0.0/24 is not inside pool p (10.0.0.0/16)"},
		"in no pool":             {pool + "claim,a,10.9.0.0/24,,\n", "3: 10.9.0.0/24 is in no pool of this plan: give the claim a pool or a class"},
		"in an exclusion":        {pool + "exclusion,,10.0.3.0/24,,\nclaim,a,10.0.3.7,,\n", "4: claim default/a: pool p never gives 10.0.3.7/32, as it keeps 10.0.3.0/24 back"},
		"an exclusion outside":   {pool + "exclusion,,10.9.0.0/24,p,\n", "3: pool p (10.0.0.0/16) excludes 10.9.0.0/24, which is not inside it"},
		"an unknown pool":        {pool + "exclusion,,10.0.9.0/24,q,\n", `3: there is no pool "q" in this plan`},
		"too short a length":     {"kind,name,cidr,min-length\npool,p,10.0.0.0/8,16\nclaim,a,10.0.0.0/12,\n", "3: claim default/a: pool p gives /16 to /128"},
	} {
		_, wrong := read(test.text, plan.Options{})
		text := ""
		for _, problem := range wrong {
			text += problem.Error() + "\n"
		}
		if !strings.Contains(text, test.want) {
			t.Errorf("%s: the problems are %q; want %q", name, text, test.want)
		}
	}
}

// A cell of a megabyte does not make an error of a megabyte.
func TestReadCSV_KeepsProblemsShort(t *testing.T) {
	t.Parallel()
	for _, text := range []string{strings.Repeat("ä", 1<<20), "kind,cidr\nclaim," + strings.Repeat("x", 1<<20) + "\n"} {
		_, wrong := read(text, plan.Options{})
		if len(wrong) != 1 || len(wrong[0].Message) > 2048 || !utf8.ValidString(wrong[0].Message) {
			t.Errorf("a long cell has %d problems, the first of %d bytes", len(wrong), len(wrong[0].Message))
		}
	}
}

const manifests = `# a plan
apiVersion: ipam.miloapis.com/v1alpha1
kind: IPPool
metadata: {name: p, uid: some, resourceVersion: "7"}
spec: {cidr: 10.0.0.0/16}
status: {phase: Ready}
---
---
apiVersion: v1
kind: List
items:
- apiVersion: ipam.miloapis.com/v1alpha1
  kind: IPClaim
  metadata: {name: a}
  spec: {address: 10.0.0.0/24}
`

func TestReadYAML_ReadsManifestsAndLists(t *testing.T) {
	t.Parallel()
	p, wrong := plan.ReadYAML([]byte(manifests), plan.Options{Namespace: "default"})
	if len(wrong) > 0 {
		t.Fatalf("the problems are %v; want none", wrong)
	}
	if diff := cmp.Diff([]string{"2 p 10.0.0.0/16 []", "12 default a 10.0.0.0/24 p"}, blocks(p)); diff != "" {
		t.Errorf("the plan is wrong (-want +got):\n%s", diff)
	}
	if pool := p.Pools[0]; pool.UID != "" || pool.ResourceVersion != "" || pool.Status.Phase != "" {
		t.Errorf("of the server's words it keeps %+v", pool.IPPool)
	}
	const about = "apiVersion: ipam.miloapis.com/v1alpha1\n"
	for text, want := range map[string]string{
		"\n\n---\n" + about + "kind: IPPool\nmetadata: {name: p}\nspec: {cidrr: 10.0.0.0/8}\n":            "4: ",
		about + "kind: IPPool\nmetadata: {name: p}\nspec: {cidr: 10.0.0.7/8}\n":                           "1: pool p: spec.cidr: 10.0.0.7/8 has host bits set: write 10.0.0.0/8",
		about + "kind: IPPool\nmetadata: {name: p}\nspec: {parentPoolRef: {name: q}, prefixLength: 24}\n": "pool p asks for no exact block: write the block as spec.address",
		about + "kind: IPClaim\nmetadata: {name: a}\nspec: {className: x}\n":                              "1: claim default/a asks for no exact block",
		"kind: Service\napiVersion: v1\n":                                                                 `1: there is a "Service" of "v1"`,
		"{":                                                                                               "1: this is no YAML",
		"[1, 2]":                                                                                          "1: this is no object",
		"a: &a [x, x]\nb: &b [*a, *a]\n":                                                                  "1: there is a nothing of nothing",
		about + "kind: IPPool\nmetadata: {name: p}\nspec: {cidr: 10.0.0.0/8, cidr: 10.0.0.0/9}\n": "1: ",
	} {
		if _, wrong := plan.ReadYAML([]byte(text), plan.Options{Namespace: "default"}); len(wrong) == 0 || !strings.HasPrefix(wrong[0].Error(), want) && !strings.Contains(wrong[0].Error(), want) {
			t.Errorf("%q: the problems are %v; want %q", text, wrong, want)
		}
	}
}

// bound returns a claim that holds a block.
func bound(name, cidr, pool string, options ...gen.ClaimOption) ipamv1alpha1.IPClaim {
	claim := gen.Claim(name, options...)
	claim.Status.AllocatedCIDR, claim.Status.PoolRef = cidr, &ipamv1alpha1.PoolRef{Name: pool}
	claim.Status.ClassName = claim.Spec.ClassName
	claim.Status.Conditions = []metav1.Condition{{Type: ipamv1alpha1.ConditionAllocated, Status: metav1.ConditionTrue}}
	return *claim
}

// A plan that was written can be read again, in both forms. Objects that cannot be asked for are left out, and named.
func TestWrite_CanBeReadAgain(t *testing.T) {
	t.Parallel()
	rich := gen.Pool("p", gen.CIDR("10.0.0.0/16"), gen.Backs("a", "b"), gen.Domain("d"), gen.Excludes("10.0.9.0/24", "10.0.8.0/24"),
		gen.Reserves(1, 2, 24), gen.Gateway("10.0.1.1", 16), gen.Lengths{Min: 20, Max: 32}, gen.Consumers{"root:acme:*", "root:b"},
		gen.Visible(ipamv1alpha1.VisibilityShared), gen.Cooldown("30s"), gen.Lease("720h"), gen.MaxPerConsumer("256"), gen.Label("site", "fra"))
	rich.Annotations = map[string]string{ipamv1alpha1.AnnotationDescription: "hall 1, rows 3; see \"plan\"", ipamv1alpha1.AnnotationUsage: "1=2"}
	pools := []ipamv1alpha1.IPPool{*rich, *gen.Pool("plain", gen.CIDR("2001:db8::/32")), *gen.Pool("sliced", gen.CIDR("10.1.0.0/16"), gen.Slices(24), gen.MaxSlices(3)), *gen.Pool("child", gen.ChildOf("p", 20))}
	claims := []ipamv1alpha1.IPClaim{
		bound("web", "10.0.2.0/24", "p", gen.OfClass("a"), gen.Length(24), gen.Label("team", "web"), gen.Reclaim(ipamv1alpha1.ReclaimRetain)),
		bound("vip", "2001:db8::7/128", "plain", gen.FromPool("plain"), gen.OnRetained(ipamv1alpha1.RetainedReuse),
			gen.OwnedBy(ipamv1alpha1.OwnerRef{APIGroup: "example.com", Kind: "Machine", Namespace: "default", Name: "m-1", UID: "u-1"})),
		bound("far", "10.7.0.0/24", "q", gen.FromPoolIn("root:net", "q")), bound("found", "10.0.3.0/24", "p", gen.Selecting("site", "fra")),
		bound("carved", "10.0.64.0/24", "child", gen.FromPool("child")), *gen.Claim("waits", gen.OfClass("a")),
		bound("range", "10.7.16.0/20", "vpc-1", gen.OfClass("a"), gen.Within("network", "vpc-1"), gen.ForRange()),
	}
	claims[0].Annotations = map[string]string{ipamv1alpha1.AnnotationDescription: "das Übliche"}
	p, left := plan.Of(pools, claims)
	if len(left) != 3 || len(p.Pools) != 3 || len(p.Claims) != 5 {
		t.Fatalf("of 4 pools and 7 claims the plan has %d and %d, and left out are %q", len(p.Pools), len(p.Claims), left)
	}
	var table, manifests bytes.Buffer
	if unsaid, err := plan.WriteCSV(&table, p); err != nil || len(unsaid) > 0 {
		t.Fatalf("WriteCSV leaves out %q, and returns %v", unsaid, err)
	}
	for _, object := range p.Objects() {
		text := must.Get(yaml.Marshal(object))(t)
		manifests.WriteString("---\n" + string(text))
	}
	fromTable, wrong := plan.ReadCSV(table.Bytes(), plan.Options{})
	fromManifests, worse := plan.ReadYAML(manifests.Bytes(), plan.Options{})
	if len(wrong)+len(worse) > 0 {
		t.Fatalf("reading back has the problems %v and %v, of\n%s%s", wrong, worse, table.String(), manifests.String())
	}
	same := []cmp.Option{cmpopts.IgnoreFields(plan.Pool{}, "Line"), cmpopts.IgnoreFields(plan.Claim{}, "Line"), cmpopts.IgnoreUnexported(plan.Plan{}, plan.Pool{}, plan.Claim{}), cmpopts.EquateEmpty()}
	if diff := cmp.Diff(p, fromTable, same...); diff != "" {
		t.Errorf("the table loses something (-want +got):\n%s\n%s", diff, table.String())
	}
	if got := fromTable.Pools[0].Annotations; len(got) != 1 || got[ipamv1alpha1.AnnotationDescription] == "" {
		t.Errorf("of the annotations there are %v; want the description alone", got)
	}
	if diff := cmp.Diff(p, fromManifests, same...); diff != "" {
		t.Errorf("the manifests lose something (-want +got):\n%s\n%s", diff, manifests.String())
	}
}

// A table has no owner that it cannot express, nor one that a spreadsheet would take for a formula: users who can
// create claims choose the names of owners.
func TestWriteCSV_LeavesOutDangerousOwners(t *testing.T) {
	t.Parallel()
	for _, owner := range []ipamv1alpha1.OwnerRef{
		{Kind: "Odd", Name: "a/b/c"}, {Kind: "Odd", Name: "a\x1b[31m"}, {Kind: "Odd", Name: "a\nclaim,b"},
		{Kind: `=HYPERLINK("http://evil.example","x")`, Name: "a"}, {Kind: "+1", Name: "a"}, {Kind: "-1", Name: "a"}, {Kind: "@SUM(A1)", Name: "a"},
	} {
		p, _ := plan.Of(nil, []ipamv1alpha1.IPClaim{bound("web", "10.0.2.0/24", "p", gen.FromPool("p"), gen.OwnedBy(owner))})
		var table bytes.Buffer
		if left, err := plan.WriteCSV(&table, p); err != nil || len(left) != 1 || left[0] != "claim default/web" {
			t.Errorf("of the owner %+v WriteCSV leaves out %q, and returns %v; want the claim", owner, left, err)
		}
	}
}

// No file makes a reader panic. If a file is read without a problem, its plan can be written, and read again.
func FuzzReadCSV(f *testing.F) {
	f.Add("kind,name,cidr\npool,p,10.0.0.0/16\nclaim,a,10.0.0.0/24\n")
	f.Add("\ufeffkind,cidr,length,host,owner,labels\r\nclaim,,,10.0.0.1/24,a/b,\"a=b c=d\"\r\n")
	f.Add("kind,cidr\nexclusion,10.0.0.1-10.0.0.9\npool,::/1\n")
	f.Add("sep=;\rkind;cidr;description\rpool;10.0.0.0/8;=1+1\rclaim;10.0.0.7;\"a \"\"b\"\"\"\r")
	f.Fuzz(func(t *testing.T, text string) {
		p, wrong := read(text, plan.Options{})
		if len(wrong) > 0 {
			return
		}
		var table bytes.Buffer
		left := must.Get(plan.WriteCSV(&table, p))(t)
		left = slices.DeleteFunc(left, func(one string) bool { return strings.HasPrefix(one, "description of ") }) // whose row is there
		again, wrong := plan.ReadCSV(table.Bytes(), plan.Options{Namespace: "default"})
		if len(wrong) > 0 || len(again.Pools)+len(again.Claims)+len(left) != len(p.Pools)+len(p.Claims) {
			t.Errorf("reading %q again has the problems %v", table.String(), wrong)
		}
	})
}

func FuzzReadYAML(f *testing.F) {
	f.Add(manifests)
	f.Fuzz(func(_ *testing.T, text string) {
		if p, wrong := plan.ReadYAML([]byte(text), plan.Options{}); len(wrong) == 0 {
			p.Check()
		}
	})
}
