package ledger

import "testing"

func TestDerivedID_DiffersForDifferentPools(t *testing.T) {
	ref := func(name string) ScopeRef { return ScopeRef{Kind: "Network", Name: name} }
	seen := map[PoolID]string{}
	for what, d := range map[string]Derived{
		"a-b in c":            {Class: "x", Workspace: "w", Scope: Scope{"network": ref("a-b"), "location": ref("c")}},
		"a in b-c":            {Class: "x", Workspace: "w", Scope: Scope{"network": ref("a"), "location": ref("b-c")}},
		"another class":       {Class: "y", Workspace: "w", Scope: Scope{"network": ref("a"), "location": ref("b-c")}},
		"another workspace":   {Class: "x", Workspace: "v", Scope: Scope{"network": ref("a"), "location": ref("b-c")}},
		"all workspaces":      {Class: "x", Scope: Scope{"network": ref("a"), "location": ref("b-c")}},
		"one role":            {Class: "x", Workspace: "w", Scope: Scope{"network": ref("a")}},
		"another kind":        {Class: "x", Workspace: "w", Scope: Scope{"network": {Kind: "VPC", Name: "a"}}},
		"another group":       {Class: "x", Workspace: "w", Scope: Scope{"network": {APIGroup: "g", Kind: "Network", Name: "a"}}},
		"group moved to kind": {Class: "x", Workspace: "w", Scope: Scope{"network": {Kind: "gNetwork", Name: "a"}}},
		"class moved":         {Class: "xw", Scope: Scope{"network": ref("a")}},
		"an address space":    {Of: "x", Workspace: "w", Scope: Scope{"network": ref("a")}},
	} {
		if other, twice := seen[d.ID()]; twice {
			t.Errorf("%s and %s have one ID: %s", what, other, d.ID())
		}
		seen[d.ID()] = what
	}
}

func TestDerivedID_IsTheSameForTheSamePool(t *testing.T) {
	scope := func() Scope {
		return Scope{"network": {Kind: "Network", Name: "n"}, "location": {Kind: "Location", Name: "l"}, "rack": {Kind: "Rack", Name: "r"}}
	}
	want := DerivedID("c", "w", scope())
	for range 20 {
		if got := DerivedID("c", "w", scope()); got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
	}
	if !IsDerived(want) || IsAddressSpace(want) || len(Digest(want)) != 64 {
		t.Errorf("%s is not read as the ID of a derived pool", want)
	}
}

// The ID of an address space names its pool, also of a derived one, and no other ID does.
func TestAddressSpaceOf_NamesThePool(t *testing.T) {
	derived := DerivedID("c", "w", Scope{})
	for _, of := range []PoolID{"uid", derived} {
		id := AddressSpaceID(of, "w", Scope{"network": {Kind: "Network", Name: "n"}})
		if got, ok := AddressSpaceOf(id); got != of || !ok || IsDerived(id) || len(Digest(id)) != 64 {
			t.Errorf("AddressSpaceOf(%s) = %s, %t; want %s", id, got, ok, of)
		}
	}
	for _, id := range []PoolID{"", "uid", derived} {
		if of, ok := AddressSpaceOf(id); ok {
			t.Errorf("AddressSpaceOf(%s) = %s, want none", id, of)
		}
	}
}
