package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/plan"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/stage"
)

// field is a column of a plan with a value, and the flag of create for the same field; empty: the flag has the name of
// the column.
type field struct{ column, value, flag string }

// Whatever object a row of a plan can describe, the commands can create it: for each column there is a flag, and both
// make the same object.
func TestCreate_HasWhatImportHas(t *testing.T) {
	described := []field{{"labels", "site=fra", ""}, {"description", "of the lab", ""}}
	pool := append([]field{
		{"cidr", "10.8.0.0/16", ""}, {"class", "internal", ""}, {"scope", "network=vpc-1", ""}, {"domain", "d", ""}, {"visibility", "shared", ""},
		{"consumers", "root:a", "consumer"}, {"exclude", "10.8.9.0/24", ""}, {"gateway", "10.8.0.1", ""}, {"network-length", "15", ""},
		{"min-length", "20", ""}, {"max-length", "28", ""}, {"strategy", "BestFit", ""}, {"leading", "1", ""}, {"trailing", "2", ""},
		{"unit-length", "24", ""}, {"slice-length", "22", ""}, {"max-slices", "3", ""}, {"max-per-consumer", "64", ""},
		{"release-cooldown", "30s", ""}, {"max-retention-lease", "720h", ""},
	}, described...)
	claim := append([]field{
		{"cidr", "10.8.4.0/24", "address"}, {"pool", "lab", ""}, {"workspace", "root:net", ""}, {"namespace", "shop", ""},
		{"reclaim-policy", "Retain", ""}, {"retained-policy", "Reuse", ""}, {"scope", "network=vpc-1", ""}, {"target", "range", ""}, {"owner", "Service/default/web", ""}, {"owner-uid", "u-1", ""},
	}, described...)
	compareCreate(t, "pool", pool, &ipamv1alpha1.IPPool{}, func(p *plan.Plan) client.Object { return p.Pools[0].IPPool })
	compareCreate(t, "claim", claim, &ipamv1alpha1.IPClaim{}, func(p *plan.Plan) client.Object { return p.Claims[0].IPClaim })
	bare := []field{{"cidr", "10.8.4.0/24", "address"}, {"class", "internal", ""}, {"scope", "network=Net.example.com/vpc-1", ""}}
	compareCreate(t, "claim", bare, &ipamv1alpha1.IPClaim{}, func(p *plan.Plan) client.Object { return p.Claims[0].IPClaim })

	child := []field{{"cidr", "10.8.4.0/24", "address"}, {"pool", "lab", "parent"}, {"workspace", "root:net", ""}}
	byClass := []field{{"cidr", "10.8.4.0/24", "address"}, {"parent-class", "internal", "class"}}
	for _, fields := range [][]field{child, byClass} {
		compareCreate(t, "pool", fields, &ipamv1alpha1.IPPool{}, func(p *plan.Plan) client.Object { return p.Pools[0].IPPool })
	}

	// The columns length and host are other ways to write a CIDR.
	known := map[string][]field{"pool": slices.Concat(pool, child, byClass, []field{{column: "length"}}), "claim": append(claim, field{column: "length"}, field{column: "host"}, field{column: "class"})}
	for kind, fields := range known {
		for _, column := range plan.Columns() {
			if column == "kind" || column == "name" || has(fields, column) {
				continue
			}
			_, wrong := plan.ReadCSV([]byte("kind,name,"+column+"\n"+kind+",lab,x\n"), plan.Options{})
			if !strings.Contains(problemsOf(wrong), "says nothing about a row of kind "+kind) {
				t.Errorf("a row of kind %s may have the column %s; give it to this test, and a flag to kubectl ipam %s create", kind, column, kind)
			}
		}
	}
}

func has(fields []field, column string) bool {
	for _, f := range fields {
		if f.column == column {
			return true
		}
	}
	return false
}

func problemsOf(wrong []plan.Problem) string {
	var said strings.Builder
	for _, one := range wrong {
		said.WriteString(one.Message + "\n")
	}
	return said.String()
}

// compareCreate creates an object with flags, reads one from a row of a plan, and compares them.
func compareCreate(t *testing.T, kind string, fields []field, created client.Object, planned func(*plan.Plan) client.Object) {
	t.Helper()
	columns, cells, args := "kind,name", kind+",lab", []string{kind, "create", "lab", "--dry-run=client", "-o", "json"}
	for _, f := range fields {
		columns, cells = columns+","+f.column, cells+","+f.value
		flag := f.flag
		if flag == "" {
			flag = f.column
		}
		args = append(args, "--"+flag, f.value)
	}
	s := stage.New(t)
	if code := s.Execute(t.Context(), newRoot(s.Session), args); code != exit.OK {
		t.Fatalf("kubectl ipam %s ended with %d and said %q", strings.Join(args, " "), code, s.Said)
	}
	must.Do(t, json.Unmarshal(s.Printed.Bytes(), created))
	p, wrong := plan.ReadCSV([]byte(columns+"\n"+cells+"\n"), plan.Options{Namespace: "default"})
	if len(wrong) > 0 {
		t.Fatalf("the row is wrong: %v", wrong)
	}
	if diff := cmp.Diff(planned(p), created, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("kubectl ipam %s create differs from the row of a plan (-row +command):\n%s", kind, diff)
	}
}
