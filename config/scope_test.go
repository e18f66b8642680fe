package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// derived marks a pool as one that the system has made for a scope.
func derived(pool *ipamv1alpha1.IPPool) *ipamv1alpha1.IPPool {
	pool.Spec.ClassRef = &ipamv1alpha1.ClassRef{Name: "c"}
	return pool
}

// objects returns a scope with that many roles.
func objects(many int) string {
	roles := make([]string, many)
	for i := range roles {
		roles[i] = fmt.Sprintf("r%d: {kind: K, name: x}", i)
	}
	return "scope: {" + strings.Join(roles, ", ") + "}"
}

// refused is a spec, and words of the refusal; empty if it is admitted.
type refused struct{ spec, want string }

// within returns the cases with the same words before each spec.
func within(before string, cases []refused) []refused {
	out := slices.Clone(cases)
	for i := range out {
		out[i].spec = before + out[i].spec
	}
	return out
}

// specified returns an object of a spec, named self.
func specified(t *testing.T, spec string) map[string]any {
	t.Helper()
	return object(t, fmt.Sprintf("{metadata: {name: self, namespace: default}, spec: {%s}}", spec))
}

// create asks a door about each spec.
func (d door) create(t *testing.T, cases []refused) {
	t.Helper()
	for _, tt := range cases {
		t.Run(tt.spec, func(t *testing.T) { expect(t, d.refusals(specified(t, tt.spec), nil), tt.want) })
	}
}

// update asks a door about each change of a spec, in both directions, and about one that changes nothing.
func (d door) update(t *testing.T, of string, cases [][3]string) {
	t.Helper()
	for _, tt := range cases {
		for _, change := range [][3]string{{tt[0], tt[1], tt[2]}, {tt[1], tt[0], tt[2]}, {tt[0], tt[0], ""}} {
			t.Run(change[0]+" to "+change[1], func(t *testing.T) {
				expect(t, d.refusals(specified(t, of+change[1]), specified(t, of+change[0])), change[2])
			})
		}
	}
}

const (
	words  = "write a word of at most 63 letters, digits and hyphens, such as network or location"
	oneOf  = "spec.poolPer must have exactly one of project and allProjects"
	beyond = "Too long: may not be more than"
)

func TestIPClass_Networks(t *testing.T) {
	platformDoors(t)["IPClass"].create(t, []refused{
		{`ipFamily: IPv6, defaultPrefixLength: 48, poolPer: [project, network], reservations: {leading: 1, unitPrefixLength: 64}`, ""},
		{`ipFamily: IPv6, parentClassName: p, defaultPrefixLength: 64, poolPer: [network, location, allProjects], routing: {internal: Host, external: Aggregate}`, ""},
		{`ipFamily: IPv6, parentClassName: p, uniqueWithin: [network]`, ""},
		{`ipFamily: IPv6, defaultPrefixLength: 48, poolPer: [], uniqueWithin: [], parentClassName: ""`, ""},
		{`ipFamily: IPv6, poolPer: [project, a-b_c9], allowedPrefixLengths: {min: 48, max: 48}`, ""},

		{`ipFamily: IPv6, defaultPrefixLength: 48, poolPer: [network]`, oneOf},
		{`ipFamily: IPv6, defaultPrefixLength: 48, poolPer: [project, allProjects, network]`, oneOf},
		{`ipFamily: IPv6, defaultPrefixLength: 48, poolPer: [project, network, network]`, "Duplicate value"},
		{`ipFamily: IPv6, defaultPrefixLength: 48, poolPer: [project, "a/b"]`, words},
		{`ipFamily: IPv6, defaultPrefixLength: 48, poolPer: [project, "-a"]`, words},
		{`ipFamily: IPv6, defaultPrefixLength: 48, poolPer: [project, ""]`, "should be at least 1 chars long"},
		{`ipFamily: IPv6, defaultPrefixLength: 48, poolPer: [project, ` + strings.Repeat("r", 64) + `]`, beyond},
		{`ipFamily: IPv6, uniqueWithin: [project]`, "project and allProjects are not allowed in spec.uniqueWithin: remove them"},
		{`ipFamily: IPv6, uniqueWithin: [network, allProjects]`, "project and allProjects are not allowed in spec.uniqueWithin: remove them"},
		{`ipFamily: IPv6, uniqueWithin: ["a b"]`, words},
		{`ipFamily: IPv6, uniqueWithin: [` + strings.Repeat("a,", 17) + `b]`, "must have at most 16 items"},
		{`ipFamily: IPv6, parentClassName: ` + strings.Repeat("p", 257), beyond},
		{`ipFamily: IPv6, reservations: {leading: 1, unitPrefixLength: 64}`, "spec.reservations is copied to the pools that are made by spec.poolPer: give spec.poolPer"},
		{`ipFamily: IPv4, defaultPrefixLength: 24, poolPer: [project], reservations: {leading: 1, unitPrefixLength: 33}`, "must be 1 to 32 for IPv4"},
		{`ipFamily: IPv6, defaultPrefixLength: 48, poolPer: [project], reservations: {leading: 1}`, "unitPrefixLength is required"},
		{`ipFamily: IPv6, defaultPrefixLength: 48, poolPer: [project, network], provisioning: Held`, ""},
		{`ipFamily: IPv6, defaultPrefixLength: 48, poolPer: [project, network], provisioning: OnDemand`, ""},
		{`ipFamily: IPv6, defaultPrefixLength: 48, poolPer: [project], provisioning: Never`, `supported values: "OnDemand", "Held"`},
		{`ipFamily: IPv6, provisioning: Held`, "spec.provisioning says when the pools of spec.poolPer are made: give spec.poolPer"},
		{`ipFamily: IPv6, routing: {internal: Some}`, `supported values: "None", "Host"`},
		{`ipFamily: IPv6, routing: {external: Host}`, `supported values: "None", "Aggregate"`},
	})
}

// A class that contradicts itself is refused, and told what to write instead.
func TestIPClass_RefusesContradictions(t *testing.T) {
	const (
		lengthless = "spec.defaultPrefixLength: Invalid value: the pools of spec.poolPer have the default length, and there is none: give spec.defaultPrefixLength"
		foreign    = "spec.uniqueWithin: Invalid value: with spec.poolPer, spec.uniqueWithin must be among its roles: add them to spec.poolPer"
		all        = "spec.reservations.unitPrefixLength: Invalid value: spec.reservations.unitPrefixLength must be longer than the pools"
	)
	platformDoors(t)["IPClass"].create(t, within("ipFamily: IPv6, ", []refused{
		{`poolPer: [project, network]`, lengthless},
		{`poolPer: [project, network], allowedPrefixLengths: {min: 48, max: 64}`, lengthless},
		{`poolPer: [project, network], allowedPrefixLengths: {min: 0, max: 0}`, lengthless},
		{`poolPer: [project, network], allowedPrefixLengths: {min: 48, max: 64}, defaultPrefixLength: 48`, ""},
		{`allowedPrefixLengths: {min: 48, max: 64}, poolPer: []`, ""},

		{`defaultPrefixLength: 48, poolPer: [project, network], uniqueWithin: [network]`, ""},
		{`defaultPrefixLength: 48, poolPer: [project, network], uniqueWithin: []`, ""},
		{`defaultPrefixLength: 48, poolPer: [project, network], uniqueWithin: [network, zone]`, foreign},
		{`defaultPrefixLength: 48, poolPer: [project], uniqueWithin: [network]`, foreign},

		{`poolPer: [project], defaultPrefixLength: 64, reservations: {leading: 1, unitPrefixLength: 65}`, ""},
		{`poolPer: [project], defaultPrefixLength: 64, reservations: {leading: 1, unitPrefixLength: 64}`, all},
		{`poolPer: [project], defaultPrefixLength: 64, reservations: {trailing: 1, unitPrefixLength: 60}`, all},
		{`poolPer: [project], allowedPrefixLengths: {min: 64, max: 64}, reservations: {leading: 1, unitPrefixLength: 60}`, all},

		{`parentClassName: self`, "spec.parentClassName names this class: a class may not be its own parent"},
	}))
}

// Claims and pools were made by the networks of a class, so these do not change.
func TestIPClass_NetworksAreImmutable(t *testing.T) {
	platformDoors(t)["IPClass"].update(t, "ipFamily: IPv6, defaultPrefixLength: 48", [][3]string{
		{", parentClassName: p", ", parentClassName: q", "spec.parentClassName is immutable"},
		{", parentClassName: p", "", "spec.parentClassName is immutable"},
		{", poolPer: [project, a]", ", poolPer: [project, b]", "spec.poolPer is immutable"},
		{", poolPer: [project]", ", poolPer: [allProjects]", "spec.poolPer is immutable"},
		{", poolPer: [project]", "", "spec.poolPer is immutable"},
		{", uniqueWithin: [a]", ", uniqueWithin: [a, b]", "spec.uniqueWithin is immutable"},
		{", uniqueWithin: [a]", "", "spec.uniqueWithin is immutable"},
		{", poolPer: [project], provisioning: Held", ", poolPer: [project]", "spec.provisioning is immutable: create another class"},
		{", poolPer: [project], provisioning: Held", ", poolPer: [project], provisioning: OnDemand", "spec.provisioning is immutable: create another class"},
		{", poolPer: [project], provisioning: OnDemand", ", poolPer: [project]", ""},

		{", poolPer: [project, a]", ", poolPer: [a, project]", ""},
		{", poolPer: [], uniqueWithin: []", "", ""},
		{`, parentClassName: ""`, "", ""},
		{", poolPer: [project], reservations: {leading: 1, unitPrefixLength: 64}", ", poolPer: [project]", ""},
		{", routing: {internal: Host}", "", ""},
	})
}

func TestScopes(t *testing.T) {
	claims, pools := tenantDoors(t)["IPClaim"], platformDoors(t)["IPPool"]
	cases := []refused{
		{"scope: {}", ""},
		{objects(16), ""},
		{"scope: {network: {apiGroup: networking.example.com, kind: Network, name: vpc-1}, location: {kind: Location, name: ams}}", ""},

		{objects(17), "must have at most 16 items"},
		{"scope: {project: {kind: K, name: x}}", "project and allProjects are no roles of a scope: remove them"},
		{"scope: {allProjects: {kind: K, name: x}}", "project and allProjects are no roles of a scope: remove them"},
		{`scope: {"a/b": {kind: K, name: x}}`, "invalid role in scope: " + words},
		{"scope: {" + strings.Repeat("r", 64) + ": {kind: K, name: x}}", "invalid role in scope: " + words},
		{"scope: {network: {name: x}}", "kind: Required value"},
		{`scope: {network: {kind: "", name: x}}`, "should be at least 1 chars long"},
		{"scope: {network: {kind: K, name: " + strings.Repeat("n", 254) + "}}", beyond},
		{"scope: {network: {kind: K, name: Vpc_1.example/a:b}}", ""},
		{`scope: {network: {kind: K, name: "a b"}}`, "invalid name in scope: write one without blanks, commas, equals signs"},
		{`scope: {network: {kind: K, name: "a,b"}}`, "invalid name in scope"},
		{`scope: {network: {kind: K, name: "a=b"}}`, "invalid name in scope"},
		{`scope: {network: {kind: K, name: "a\tb"}}`, "invalid name in scope"},
		{`scope: {network: {kind: K, name: "a\u0001b"}}`, "invalid name in scope"},
		{"scope: {network: {kind: " + strings.Repeat("k", 254) + ", name: x}}", beyond},
		{"scope: {network: {apiGroup: " + strings.Repeat("g", 254) + ", kind: K, name: x}}", beyond},
	}
	claims.create(t, append(cases, refused{"scope: {network: {kind: Network}}", ""}))
	pools.create(t, append(within("cidr: 10.0.0.0/8, ", cases),
		refused{"cidr: 10.0.0.0/8, scope: {network: {kind: Network}}", "spec.scope has a reference without a name"},
		refused{`cidr: 10.0.0.0/8, scope: {network: {kind: Network, name: ""}}`, "spec.scope has a reference without a name"},
	))
}

func TestIPClaim_Targets(t *testing.T) {
	const network = "scope: {network: {kind: Network, name: vpc-1}}, target: ScopeRange"
	const with = "spec.target ScopeRange holds the pool that a class has for a scope: remove spec.number"
	d := tenantDoors(t)["IPClaim"]
	d.create(t, []refused{
		{network, ""},
		{"className: c, " + network, ""},
		{"ipFamily: IPv6, " + network, ""},
		{"target: Block, prefixLength: 24, reclaimPolicy: Retain", ""},
		{"address: 10.0.0.0/16, " + network, ""},
		{"prefixLength: 24, " + network, ""},

		{"target: Range", `supported values: "Block", "ScopeRange"`},
		{"reclaimPolicy: Delete, " + network, with},
		{"number: 1, " + network, with},
		{"poolRef: {name: p}, " + network, with},
		{"poolSelector: {matchLabels: {a: b}}, " + network, with},
	})
	d.update(t, "className: c", [][3]string{
		{", target: ScopeRange", "", "spec.target is immutable: create another claim"},
		{", target: ScopeRange", ", target: Block", "spec.target is immutable: create another claim"},
		{", target: Block", "", ""},
		{", scope: {a: {kind: K, name: x}}", "", "spec.scope is immutable: create another claim"},
		{", scope: {a: {kind: K, name: x}}", ", scope: {b: {kind: K, name: x}}", "spec.scope is immutable: create another claim"},
		{", scope: {a: {kind: K, name: x}}", ", scope: {a: {kind: K, name: m}}", "spec.scope is immutable: create another claim"},
	})
}

// Only a class of single addresses gives numbers, and only a claim by class asks for one.
func TestNumbers(t *testing.T) {
	const single, given = "spec.number is that of a single address: allow the length 128 alone", "spec.number is given by a class: remove"
	platformDoors(t)["IPClass"].create(t, []refused{
		{"ipFamily: IPv6, allowedPrefixLengths: {min: 128, max: 128}, number: {bits: 24}", ""},
		{"ipFamily: IPv4, allowedPrefixLengths: {min: 32, max: 32}, number: {bits: 32}, parentClassName: p, uniqueWithin: [switch]", ""},
		{"ipFamily: IPv6, number: {bits: 24}", single},
		{"ipFamily: IPv6, defaultPrefixLength: 128, number: {bits: 24}", single},
		{"ipFamily: IPv6, allowedPrefixLengths: {min: 96, max: 128}, number: {bits: 24}", single},
		{"ipFamily: IPv6, allowedPrefixLengths: {min: 128, max: 128}, poolPer: [project], number: {bits: 24}", single},
		{"ipFamily: IPv6, allowedPrefixLengths: {min: 128, max: 128}, number: {bits: 0}", "should be greater than or equal to 1"},
		{"ipFamily: IPv6, allowedPrefixLengths: {min: 128, max: 128}, number: {bits: 33}", "should be less than or equal to 32"},
		{"ipFamily: IPv6, allowedPrefixLengths: {min: 128, max: 128}, number: {}", "Required value"},
	})
	platformDoors(t)["IPClass"].update(t, "ipFamily: IPv6, allowedPrefixLengths: {min: 128, max: 128}", [][3]string{
		{", number: {bits: 24}", "", "spec.number is immutable: create another class"},
		{", number: {bits: 24}", ", number: {bits: 12}", "spec.number is immutable: create another class"},
	})
	d := tenantDoors(t)["IPClaim"]
	d.create(t, []refused{
		{"number: 0", ""},
		{"className: c, prefixLength: 128, number: 4294967295", ""},
		{"number: -1", "should be greater than or equal to 0"},
		{"number: 4294967296", "should be less than or equal to 4294967295"},
		{"number: 1, address: fd00::1", given},
		{"number: 1, poolRef: {name: p}", given},
		{"number: 1, poolSelector: {matchLabels: {a: b}}", given},
	})
	d.update(t, "className: c", [][3]string{
		{", number: 1", "", "spec.number is immutable: create another claim"},
		{", number: 1", ", number: 2", "spec.number is immutable: create another claim"},
	})
}

// The class of a pool cannot be set, changed or removed.
func TestIPPool_ClassRefIsImmutable(t *testing.T) {
	platformDoors(t)["IPPool"].update(t, "cidr: 10.0.0.0/8", [][3]string{
		{", classRef: {name: c}", "", "spec.classRef is given by the system: leave it as it is"},
		{", classRef: {name: c}", ", classRef: {name: d}", "spec.classRef is given by the system: leave it as it is"},
		{", scope: {a: {kind: K, name: x}}", "", ""},
	})
}
