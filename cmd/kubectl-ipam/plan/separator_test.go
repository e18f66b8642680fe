package plan_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/plan"
)

// Whatever separates cells and ends lines, a table is read as the same plan.
func TestReadCSV_Separators(t *testing.T) {
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

// Where the separator cannot be told, the message says how to give it.
func TestReadCSV_UnclearSeparator(t *testing.T) {
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

func TestParseSeparator(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]rune{";": ';', "tab": '\t', `\t`: '\t', "|": '|', "\t": '\t', "": 0, ";;": 0, "\"": 0, "#": 0, "\n": 0, "\xff": 0} {
		if got, err := plan.ParseSeparator(text); got != want || (err == nil) != (want != 0) {
			t.Errorf("ParseSeparator(%q) = %q, %v; want %q", text, got, err, want)
		}
	}
}
