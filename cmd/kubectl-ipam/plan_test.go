package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/transfer"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/stage"
)

// planFile is a file with a plan.
func planFile(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	must.Do(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// A plan is checked for its own contradictions without a server.
func TestImport_ChecksAPlanWithoutAServer(t *testing.T) {
	for format, name := range map[string]string{"": "import_table", "json": "import_json", "csv": "import_csv", "name": "import_name"} {
		s := stage.New(t)
		t.Chdir("testdata")
		args := []string{"import", "plan.csv", "--dry-run=client"}
		if format != "" {
			args = append(args, "-o", format)
		}
		code := s.Execute(t.Context(), newRoot(s.Session), args)
		t.Chdir("..")
		if code != exit.OK || s.Said.String() != "plan.csv: 5 valid\n" {
			t.Fatalf("%v ended with %d and said %q", args, code, s.Said)
		}
		stage.Golden(t, name, s.Printed.String())
	}
}

// If a plan has many wrong lines, fifty of them are named. As JSON, all are.
func TestImport_NamesFiftyWrongLines(t *testing.T) {
	file := planFile(t, "plan.csv", "kind,cidr\n"+strings.Repeat("claim,10.0.0.1/8\n", 60))
	s := stage.New(t)
	code := s.Execute(t.Context(), newRoot(s.Session), []string{"import", file, "--dry-run=client", "-o", "json"})
	if lines := strings.Count(s.Said.String(), "host bits"); code != exit.Invalid || lines != 50 || !strings.Contains(s.Said.String(), "10 lines more are wrong") {
		t.Errorf("it ended with %d and names %d lines: %s", code, lines, s.Said)
	}
	if lines := strings.Count(s.Printed.String(), `"line"`); lines != 60 {
		t.Errorf("as JSON it names %d lines; want 60", lines)
	}
}

func TestImport_RefusesWrongUsage(t *testing.T) {
	csv := planFile(t, "plan.csv", "kind,cidr\nclaim,10.0.0.1\n")
	for name, test := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no plan":           {[]string{planFile(t, "plan.txt", "")}, exit.Usage, "give a file whose name ends with .csv, .yaml or .json"},
		"two files":         {[]string{csv, "-f", "-"}, exit.Usage, "2 files were given; give one, or - for stdin"},
		"no file at all":    {nil, exit.Usage, "0 files were given; give one, or - for stdin"},
		"no file":           {[]string{"/nowhere/plan.csv"}, exit.NotFound, "no such file"},
		"an unknown column": {[]string{csv, "--column", "prefix=CIDR"}, exit.Usage, `there is no column "prefix"`},
		"a column twice":    {[]string{csv, "--column", "name=cidr,pool=CIDR"}, exit.Usage, `--column reads "CIDR" as name and as pool`},
		"a missing column":  {[]string{csv, "--column", "cidr=Prefix"}, exit.Invalid, `:1: --column cidr=Prefix: the table has no column "Prefix"`},
		"none to ignore":    {[]string{csv, "--ignore-column", "VRF"}, exit.Invalid, `:1: --ignore-column VRF: the table has no column "VRF"`},
		"an odd separator":  {[]string{csv, "--separator", "||"}, exit.Usage, `--separator: "||" separates no cells: write one character, such as ; or tab`},
		"nothing left out":  {[]string{csv, "--leave-out", "Free"}, exit.Usage, "--leave-out Free: write a column of the table and a value, such as Status=Free"},
		"rows of YAML":      {[]string{planFile(t, "plan.yaml", "# nothing\n"), "--leave-out", "a=b"}, exit.Usage, "--leave-out is for tables"},
		"a separator":       {[]string{planFile(t, "plan.yaml", "# nothing\n"), "--separator", ";"}, exit.Usage, "--separator is for tables"},
		"an odd default":    {[]string{csv, "--default", "vrf=a"}, exit.Usage, `there is no column "vrf"`},
		"columns of YAML":   {[]string{planFile(t, "plan.yaml", "# nothing\n"), "--default", "kind=claim"}, exit.Usage, "--default is for tables"},
		"in no pool":        {[]string{csv}, exit.Invalid, ":2: 10.0.0.1 is in no pool of this plan"},
		"empty":             {[]string{planFile(t, "plan.yaml", "# nothing\n")}, exit.Invalid, "describes nothing"},
		"columns alone":     {[]string{planFile(t, "plan.csv", "kind,cidr\n")}, exit.Invalid, "describes nothing"},
	} {
		s := stage.New(t)
		if code := s.Execute(t.Context(), newRoot(s.Session), append([]string{"import"}, test.args...)); code != test.code || !strings.Contains(s.Said.String(), test.want) || s.Printed.Len() > 0 {
			t.Errorf("%s: it ended with %d and said %q; want %d and %q", name, code, s.Said, test.code, test.want)
		}
	}
}

// A plan from stdin is read as a table or as manifests, depending on its text.
func TestImport_ReadsStdinInBothForms(t *testing.T) {
	manifest := "# a pool\n\nkind: IPPool\napiVersion: ipam.miloapis.com/v1alpha1\nmetadata: {name: p}\nspec: {cidr: 10.0.0.0/8}\n"
	for text, args := range map[string][]string{
		"kind;name;cidr\npool;p;10.0.0.0/8\n": {"import", "-"},
		"\ufeffkind,cidr\npool,10.0.0.0/8\n":  {"import", "-f", "-"},
		"cidr\n10.0.0.0/8\n":                  {"import", "-", "--default", "kind=pool"},
		manifest:                              {"import", "-"},
		"---\n" + manifest:                    {"import", "-f", "-"},
		"{\"items\": [], \"kind\": \"List\"}": {"import", "-"},
	} {
		s := stage.New(t)
		s.In = strings.NewReader(text)
		code := s.Execute(t.Context(), newRoot(s.Session), append(args, "--dry-run=client"))
		if want := "stdin: 1 valid\n"; s.Said.String() != want && (code != exit.Invalid || !strings.Contains(s.Said.String(), "stdin describes nothing")) {
			t.Errorf("%q: it ended with %d and said %q; want %q", text, code, s.Said, want)
		}
	}
}

// A file that is too large is refused before it is read as a plan.
func TestImport_RefusesTooLargeFiles(t *testing.T) {
	file := planFile(t, "plan.csv", "kind,cidr\n")
	must.Do(t, os.Truncate(file, transfer.MostPlan+1))
	s := stage.New(t)
	if code := s.Execute(t.Context(), newRoot(s.Session), []string{"import", file}); code != exit.Invalid || !strings.Contains(s.Said.String(), "is larger than 64 MiB") {
		t.Errorf("it ended with %d and said %q", code, s.Said)
	}
}
