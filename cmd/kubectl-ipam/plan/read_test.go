package plan_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/equality"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/plan"
	"github.com/kcp-ipam/ipam/test/gen"
)

// Rows of free addresses are not read, even if other cells in them are wrong.
func TestReadCSV_SkipsRowsOfFreeAddresses(t *testing.T) {
	t.Parallel()
	const table = "kind,name,cidr,State\npool,p,192.0.2.0/24,\nclaim,a,192.0.2.1,Used\nclaim,b,192.0.2.2,Free\nclaim,C !,192.0.2.300, free \nclaim,d,192.0.2.4,available\n"
	p, wrong := read(table, plan.Options{LeaveOut: map[string][]string{"state": {"free", "Available"}}})
	if want := []string{"2 p 192.0.2.0/24 []", "3 default a 192.0.2.1 p"}; len(wrong) > 0 || !slices.Equal(blocks(p), want) || p.LeftOut != 3 {
		t.Errorf("the plan is %q without %d rows, with the problems %v; want %q without 3", blocks(p), p.LeftOut, wrong, want)
	}
	p, wrong = read(table, plan.Options{Ignore: []string{"State"}, LeaveOut: map[string][]string{"name": {"C !"}}})
	if len(wrong) > 0 || len(p.Claims) != 3 || p.LeftOut != 1 {
		t.Errorf("by a column that is read as well, the plan is %q without %d rows, with the problems %v; want 3 claims without 1", blocks(p), p.LeftOut, wrong)
	}
	if _, wrong := read(table, plan.Options{Ignore: []string{"State"}, LeaveOut: map[string][]string{"Status": {"Free"}}}); len(wrong) != 1 || !strings.Contains(wrong[0].Error(), `1: --leave-out Status: the table has no column "Status"`) {
		t.Errorf("the problems are %v; want the column that is not there", wrong)
	}
}

// The description of a pool or a claim is kept. The row of an exclusion may have one, too.
func TestReadCSV_KeepsDescriptions(t *testing.T) {
	t.Parallel()
	p, wrong := read("kind,name,cidr,Description\npool,p,192.0.2.0/24,hall 1\nexclusion,,192.0.2.9,printers\nclaim,a,192.0.2.1,\"web, old\"\nclaim,b,192.0.2.2,\n", plan.Options{})
	if len(wrong) > 0 {
		t.Fatalf("the problems are %v; want none", wrong)
	}
	for want, got := range map[string]map[string]string{"hall 1": p.Pools[0].Annotations, "web, old": p.Claims[0].Annotations, "": p.Claims[1].Annotations} {
		if got[ipamv1alpha1.AnnotationDescription] != want || want == "" && got != nil {
			t.Errorf("the annotations are %v; want the description %q", got, want)
		}
	}
}

// If a table cannot write the description of a claim, it has the claim without the description.
func TestWriteCSV_LeavesOutDescriptions(t *testing.T) {
	t.Parallel()
	for _, description := range []string{"- rack 1", "two\nlines", "=1+1", " blank"} {
		claim := bound("web", "10.0.2.0/24", "p", gen.FromPool("p"))
		claim.Annotations = map[string]string{ipamv1alpha1.AnnotationDescription: description}
		p, _ := plan.Of(nil, []ipamv1alpha1.IPClaim{claim})
		var table bytes.Buffer
		left, err := plan.WriteCSV(&table, p)
		if err != nil || !slices.Equal(left, []string{"description of claim default/web"}) || !strings.Contains(table.String(), "claim,web,default,10.0.2.0/24") {
			t.Errorf("of the description %q WriteCSV leaves out %q, and returns %v and %q", description, left, err, table.String())
		}
		if p.Claims[0].Annotations[ipamv1alpha1.AnnotationDescription] != description {
			t.Errorf("the plan has lost its description")
		}
	}
}

// The names and descriptions of exclusions are kept with the pool, and are written as rows again.
func TestExclusions_KeepTheirNames(t *testing.T) {
	t.Parallel()
	const table = "kind,name,cidr,pool,exclude,description\npool,p,192.0.2.0/24,,192.0.2.64/28,\nexclusion,printers,192.0.2.16/28,p,,\"hall 1, left\"\nexclusion,,192.0.2.32/28,p,,\nexclusion,old,192.0.2.8-192.0.2.11,,,\n"
	p, wrong := read(table, plan.Options{})
	if len(wrong) > 0 {
		t.Fatalf("the problems are %v; want none", wrong)
	}
	pool := p.Pools[0].IPPool
	want := []plan.Note{{CIDR: "192.0.2.16/28", Name: "printers", Description: "hall 1, left"}, {CIDR: "192.0.2.8/30", Name: "old"}}
	if got := plan.NotesOf(pool); !slices.Equal(got, want) || len(pool.Spec.ExcludedCIDRs) != 4 {
		t.Errorf("the notes are %v of %v; want %v of 4 blocks", got, pool.Spec.ExcludedCIDRs, want)
	}
	var err error
	exported, left := plan.Of([]ipamv1alpha1.IPPool{*pool}, nil)
	if len(left) > 0 {
		t.Fatalf("%v is left out", left)
	}
	var out bytes.Buffer
	if left, err = plan.WriteCSV(&out, exported); err != nil || len(left) > 0 {
		t.Fatalf("WriteCSV leaves out %v, and returns %v", left, err)
	}
	again, wrong := read(out.String(), plan.Options{})
	if len(wrong) > 0 || !equality.Semantic.DeepEqual(plan.Comparable(again.Pools[0].IPPool), plan.Comparable(pool)) ||
		!slices.Equal(plan.NotesOf(again.Pools[0].IPPool), want) {
		t.Errorf("written and read again, with the problems %v, the plan is %+v:\n%s", wrong, again.Pools[0].IPPool, out.String())
	}

	pool.Annotations[ipamv1alpha1.AnnotationExclusions] = `[{"cidr":"192.0.2.16/28","name":"=1+1"},{"cidr":"10.0.0.0/8","name":"elsewhere"}]`
	exported, _ = plan.Of([]ipamv1alpha1.IPPool{*pool}, nil)
	out.Reset()
	left, err = plan.WriteCSV(&out, exported)
	if again, wrong := read(out.String(), plan.Options{}); err != nil || len(wrong) > 0 || !slices.Equal(left, []string{"name and description of exclusion 192.0.2.16/28"}) ||
		len(again.Pools[0].Spec.ExcludedCIDRs) != 4 {
		t.Errorf("of a formula WriteCSV leaves out %q, returns %v and %s", left, err, out.String())
	}
	pool.Annotations[ipamv1alpha1.AnnotationExclusions] = "no list"
	if got := plan.NotesOf(pool); got != nil {
		t.Errorf("the notes are %v; want none", got)
	}
}

// pool returns the manifest of a pool, in one line.
func pool(name string, third int) string {
	return fmt.Sprintf("{apiVersion: ipam.miloapis.com/v1alpha1, kind: IPPool, metadata: {name: %s}, spec: {cidr: 10.0.%d.0/24}}", name, third)
}

// No object of a file is lost, however the file divides its documents. If the reader cannot divide a file, it is
// refused.
func TestReadYAML_LosesNoDocument(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"by a line":           pool("a", 1) + "\n---\n" + pool("b", 2) + "\n",
		"with a comment":      pool("a", 1) + "\n--- # the second\n" + pool("b", 2) + "\n",
		"on the same line":    "--- " + pool("a", 1) + "\n--- " + pool("b", 2) + "\n",
		"by a tab":            pool("a", 1) + "\n---\t\n" + pool("b", 2) + "\n",
		"with an end as well": pool("a", 1) + "\n...\n---\n" + pool("b", 2) + "\n",
		"by an end alone":     pool("a", 1) + "\n...\n" + pool("b", 2) + "\n",
		"by CRLF":             pool("a", 1) + "\r\n---\r\n" + pool("b", 2) + "\r\n",
		"by nothing":          pool("a", 1) + "\n" + pool("b", 2) + "\n",
	} {
		p, wrong := plan.ReadYAML([]byte(text), plan.Options{})
		if len(wrong) > 0 {
			if name != "by nothing" && name != "by an end alone" {
				t.Errorf("%s: the problems are %v; want none", name, wrong)
			}
			continue
		}
		var got []string
		for _, pool := range p.Pools {
			got = append(got, pool.Name)
		}
		if diff := cmp.Diff([]string{"a", "b"}, got); diff != "" {
			t.Errorf("%s: the pools are wrong (-want +got):\n%s", name, diff)
		}
	}
}

// A file in another encoding is refused: otherwise, letters in the names of owners would be replaced.
func TestRead_RefusesOtherEncodings(t *testing.T) {
	t.Parallel()
	for name, read := range map[string]func() []plan.Problem{
		"a table in Latin-1": func() []plan.Problem {
			_, wrong := plan.ReadCSV([]byte("kind,cidr,owner\npool,10.0.0.0/8,\nclaim,10.0.0.7,Person/M\xfcller\n"), plan.Options{})
			return wrong
		},
		"manifests in Latin-1": func() []plan.Problem {
			_, wrong := plan.ReadYAML([]byte("# owners\n---\n# M\xfcller\n"), plan.Options{})
			return wrong
		},
	} {
		if wrong := read(); len(wrong) != 1 || wrong[0].Line != 3 || !strings.Contains(wrong[0].Message, "save the file as UTF-8") {
			t.Errorf("%s has the problems %v; want one of line 3", name, wrong)
		}
	}
}

// A table is read as the same plan, whatever separates its cells and ends its lines.
func TestReadCSV_ReadsAnySeparator(t *testing.T) {
	t.Parallel()
	want := []string{"2 p 10.0.0.0/16 []", "4 default a 10.0.1.0/24 p"}
	below := []string{"3 p 10.0.0.0/16 []", "5 default a 10.0.1.0/24 p"}
	const table = "kind,name,cidr\npool,p,10.0.0.0/16\n\nclaim,a,10.0.1.0/24\n"
	with := func(separator string) string { return strings.ReplaceAll(table, ",", separator) }
	for name, test := range map[string]struct {
		text    string
		options plan.Options
		want    []string
	}{
		"semicolons":              {text: with(";")},
		"tabs":                    {text: with("\t")},
		"bars":                    {text: with("|")},
		"quoted":                  {text: "\"kind\";\"name\";\"cidr\"\n\"pool\";\"p\";\"10.0.0.0/16\"\n\n\"claim\";\"a\";\"10.0.1.0/24\"\n"},
		"one column in quotes":    {text: "kind;\"name\";cidr\npool;p;10.0.0.0/16\n\nclaim;\"a\";10.0.1.0/24\n"},
		"BOM, CRLF and quotes":    {text: "\ufeff\"kind\";\"name\";\"cidr\"\r\npool;p;10.0.0.0/16\r\n\r\nclaim;a;\"10.0.1.0/24\"\r\n"},
		"carriage returns alone":  {text: strings.ReplaceAll(table, "\n", "\r")},
		"the line of Excel":       {text: "sep=;\n" + with(";"), want: below},
		"the line of Excel again": {text: "\ufeff\"sep=|\"\r\n" + with("|"), want: below},
		"the line, with padding":  {text: "sep=;;;\n" + with(";"), want: below},
		"a comment before":        {text: "#a,b,c,d,e\n" + with(";"), want: below},
		"another one, as told":    {text: with(":"), options: plan.Options{Separator: ':'}},
		"commas, as told":         {text: strings.Replace(table, "name", "name;;;;", 1), options: plan.Options{Separator: ',', Columns: map[string]string{"name;;;;": "name"}}},
		"the separator in quotes": {text: "kind;name;\"a, b, c, d\"\npool;p;10.0.0.0/16\n\nclaim;a;10.0.1.0/24\n", options: plan.Options{Columns: map[string]string{"a, b, c, d": "cidr"}}},
		"empty cells":             {text: "kind\tname\tpool\tcidr\npool\tp\t\t10.0.0.0/16\n\nclaim\ta\t\t10.0.1.0/24\n"},
	} {
		p, wrong := read(test.text, test.options)
		if len(wrong) > 0 {
			t.Errorf("%s: the problems are %v; want none", name, wrong)
			continue
		}
		if test.want == nil {
			test.want = want
		}
		if diff := cmp.Diff(test.want, blocks(p)); diff != "" {
			t.Errorf("%s: the plan is wrong (-want +got):\n%s", name, diff)
		}
	}
}

// If the separator is ambiguous, the error says how to give it.
func TestReadCSV_AsksForAnAmbiguousSeparator(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		text    string
		options plan.Options
		want    string
	}{
		"two of them":       {text: "kind,name;cidr\n", want: "1: , and ; may separate the columns: say by --separator which one does"},
		"a bar and a tab":   {text: "kind\tname|cidr\n", want: "1: tab and | may separate the columns"},
		"blanks":            {text: "\nkind name cidr\n", want: "2: there is one column alone: separate columns by , or ; or | or tab, or give --separator"},
		"another one":       {text: "kind;name;cidr\n", options: plan.Options{Separator: ','}, want: "1: there is one column alone"},
		"quotes by another": {text: "\"kind\":\"name\"\n", want: "1: there are no columns: a quote stands alone"},
	} {
		_, wrong := read(test.text, test.options)
		if len(wrong) == 0 || !strings.Contains(wrong[0].Error(), test.want) {
			t.Errorf("%s: the problems are %v; want %q", name, wrong, test.want)
		}
	}
}

func TestParseSeparator_TakesOneCharacterOrTab(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]rune{";": ';', "tab": '\t', `\t`: '\t', "|": '|', "\t": '\t', "": 0, ";;": 0, "\"": 0, "#": 0, "\n": 0, "\xff": 0} {
		if got, err := plan.ParseSeparator(text); got != want || (err == nil) != (want != 0) {
			t.Errorf("ParseSeparator(%q) = %q, %v; want %q", text, got, err, want)
		}
	}
}
