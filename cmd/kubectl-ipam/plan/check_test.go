package plan_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/plan"
)

// Each problem of a table is reported once, and none is left out.
func TestCheck_ReportsEachProblemOnce(t *testing.T) {
	t.Parallel()
	const pool = "kind,name,cidr,pool\npool,p,192.0.2.0/24,\n"
	const scoped = "kind,name,cidr,class,scope,pool,workspace\n"
	long := strings.Repeat("a", 254)
	for name, test := range map[string]struct {
		text    string
		options plan.Options
		want    []string
	}{
		"a VRF each, as pools": {"kind,cidr\npool,10.0.0.0/24\npool,10.0.0.0/24\npool,10.0.0.0/24\n", plan.Options{}, []string{
			"3: pool net-10-0-0-0-24 repeats 10.0.0.0/24 of line 2: a pool has each address once: leave one of the lines out, and name a VRF in the column scope of its claims if the class has uniqueWithin; or import each VRF into a workspace of its own",
			"4: pool net-10-0-0-0-24 repeats 10.0.0.0/24 of line 2: a pool has each address once: leave one of the lines out, and name a VRF in the column scope of its claims if the class has uniqueWithin; or import each VRF into a workspace of its own",
		}},
		"a VRF each, as domains": {"kind,name,cidr,VRF\npool,a,10.0.0.0/24,red\npool,b,10.0.0.0/24,blue\n", plan.Options{Columns: map[string]string{"VRF": "domain"}}, []string{
			"3: pool b repeats 10.0.0.0/24 of line 2: a pool has each address once",
		}},
		"a VRF each, as claims": {pool + "claim,,192.0.2.0/28,\nclaim,,192.0.2.0/28,\n", plan.Options{}, []string{
			"4: claim default/net-192-0-2-0-28 repeats 192.0.2.0/28 of line 3: a pool has each address once",
		}},
		"three deep, as claims": {"kind,name,cidr\nclaim,all,10.0.0.0/8\nclaim,site-a,10.1.0.0/16\nclaim,vlan-7,10.1.7.0/24\n", plan.Options{}, []string{
			"2: claim default/all (10.0.0.0/8) contains claim default/site-a (10.1.0.0/16, line 3), default/vlan-7 (10.1.7.0/24, line 4), and two claims never have the same address: " +
				"make it a pool, and leave out default/site-a (10.1.0.0/16, line 3), between the outermost and the innermost",
		}},
		"three deep, in a pool": {"kind,name,cidr\npool,all,10.0.0.0/8\nclaim,site-a,10.1.0.0/16\nclaim,vlan-7,10.1.7.0/24\n", plan.Options{}, []string{
			"3: claim default/site-a (10.1.0.0/16) contains claim default/vlan-7 (10.1.7.0/24, line 4), and two claims never have the same address: leave it out, as the pool all has the addresses of all",
		}},
		"three deep, as pools": {"kind,name,cidr\npool,site-a,10.1.0.0/16\npool,vlan-7,10.1.7.0/24\npool,all,10.0.0.0/8\n", plan.Options{}, []string{
			"4: pool all (10.0.0.0/8) contains pool site-a (10.1.0.0/16, line 2), vlan-7 (10.1.7.0/24, line 3): write the innermost as claims in pool all, " +
				"and leave out site-a (10.1.0.0/16, line 2), between the outermost and the innermost; or give each pool inside its parent, in the column pool or as spec.parentPoolRef; or put the pools in one addressDomain",
		}},
		"pools of one domain, and another": {"kind,name,cidr,domain\npool,a,10.0.0.0/8,d\npool,b,10.0.0.0/16,d\npool,c,10.0.0.0/24,\n", plan.Options{}, []string{
			"2: pool a (10.0.0.0/8) contains pool c (10.0.0.0/24, line 4)",
		}},
		"scopes as the table has them": {scoped + "claim,a,10.0.0.0/24,vrf,location=ams network=x,,\nclaim,b,10.0.0.1,vrf,network=x location=ams,,\n", plan.Options{}, []string{
			"2: claim default/a (10.0.0.0/24) contains claim default/b (10.0.0.1/32, line 3), and two claims never have the same address: leave it out, as the class vrf for location=ams network=x has",
		}},
		"one address in two networks": {scoped + "claim,a,10.0.0.1,vrf,network=x,,\nclaim,b,10.0.0.1,vrf,network=y,,\n", plan.Options{}, nil},
		"one address in one network": {scoped + "claim,a,10.0.0.1,vrf,network=x,,\nclaim,b,10.0.0.1,vrf,network=x,,\n", plan.Options{}, []string{
			"3: claim default/b repeats 10.0.0.1/32 of line 2",
		}},
		"one address in no network": {scoped + "claim,a,10.0.0.1,vrf,,,\nclaim,b,10.0.0.1,vrf,,,\n", plan.Options{}, []string{"3: claim default/b repeats 10.0.0.1/32 of line 2"}},
		"one address in two pools of one domain": {"kind,name,cidr,domain,pool\npool,a,10.0.0.0/8,d,\npool,b,10.0.0.0/16,d,\nclaim,x,10.0.0.1,,a\nclaim,y,10.0.0.1,,b\n", plan.Options{}, []string{
			"5: claim default/y repeats 10.0.0.1/32 of line 4",
		}},
		"a pool for another scope": {scoped + "pool,p,10.0.0.0/24,,network=x,,\nclaim,a,10.0.0.1,,,,\nclaim,b,10.0.0.2,,network=y,p,\nclaim,c,10.0.0.3,,network=x location=ams,p,\n", plan.Options{}, []string{
			"3: claim default/a: pool p serves no other scope than network=x: give the claim that scope, or name another pool",
			"4: claim default/b: pool p serves no other scope than network=x",
		}},
		"blocks of different sources": {scoped + "claim,a,10.0.0.0/24,x,,,\nclaim,b,10.0.0.0/24,y,,,\nclaim,c,10.0.0.0/24,,,p,root:net\n", plan.Options{}, nil},
		"names": {pool + "claim," + long + ",192.0.2.1,\nclaim,-a,192.0.2.2,\nclaim,a-,192.0.2.3,\nclaim,a..b,192.0.2.4,\nclaim,.a,192.0.2.5,\nclaim,DB 1,192.0.2.6,\nclaim,\u0430bc,192.0.2.7,\n", plan.Options{}, []string{
			`3: "` + long + `" is no name of a claim: must be no more than 253 `,
			`4: "-a" is no name of a claim: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character`,
			`5: "a-" is no name of a claim: a lowercase`, `6: "a..b" is no name of a claim: a lowercase`, `7: ".a" is no name of a claim: a lowercase`,
			`8: "DB 1" is no name of a claim: a lowercase RFC 1123 subdomain`,
			"9: \"\u0430bc\" (\"\\u0430bc\") is no name of a claim: a lowercase RFC 1123 subdomain",
		}},
		"ranges": {pool + "exclusion,,192.0.2.110-192.0.2.100,\nexclusion,,192.0.2.9-3,\nexclusion,,192.0.2.100-192.0.2.100.203,\nexclusion,,192.0.2.1-2001:db8::1,\nexclusion,,printers,\nexclusion,,192.0.2.250-192.0.3.5,\nclaim,a,192.0.2.5-9,\n", plan.Options{}, []string{
			"3: cidr: 192.0.2.110-192.0.2.100 ends before it begins: write 192.0.2.100-192.0.2.110",
			"4: cidr: 192.0.2.9-3 ends before it begins: write 192.0.2.3-192.0.2.9",
			`5: cidr: 192.0.2.100-192.0.2.100.203 ends with "192.0.2.100.203", which is no address: write a range such as 192.0.2.5-192.0.2.9`,
			"6: cidr: 192.0.2.1-2001:db8::1 begins and ends with addresses of different families",
			`7: cidr: "printers" is no block: write a network such as 10.0.0.0/8 or 2001:db8::/32, or an address such as 192.0.2.7; a range is written as 192.0.2.5-192.0.2.9`,
			"8: 192.0.3.0/30 of the range 192.0.2.250-192.0.3.5 is in no pool of this plan: end the range with the pool",
			"9: cidr: 192.0.2.5-9 is a range, and a block is a prefix: write 192.0.2.5/32, 192.0.2.6/31, 192.0.2.8/31",
		}},
		"look-alikes": {pool + "cl\u0430im,a,192.0.2.1,\nexclusion,,192.0.2.\u06f1,\nclaim,a,192.0.2.1,l\u0430b\n", plan.Options{}, []string{
			"3: kind: \"cl\u0430im\" (\"cl\\u0430im\") is none of its words", "4: cidr: \"192.0.2.\u06f1\" (\"192.0.2.\\u06f1\") is no block",
		}},
		"a range outside its pool": {pool + "exclusion,,192.0.2.250-192.0.3.5,p\n", plan.Options{}, []string{
			"3: pool p (192.0.2.0/24) excludes 192.0.2.250-192.0.3.5, which is not inside it: leave it out, or write the part inside",
		}},
		"cells, names and overlaps": {pool + "claim,DB 1,192.0.2.1,\nclaim,a,192.0.2.300,\nclaim,b,192.0.2.0/28,\nclaim,c,192.0.2.5,\nclaim,d,198.51.100.7,\n", plan.Options{}, []string{
			`3: "DB 1" is no name of a claim`, `4: cidr: "192.0.2.300" is no block`, "5: claim default/b (192.0.2.0/28) contains claim default/DB 1", "7: 198.51.100.7 is in no pool of this plan",
		}},
		"a row of an unknown kind may be the pool of those inside": {pool + "net,a,198.51.100.0/24,\nclaim,b,198.51.100.7,\nclaim,c,203.0.113.7,\nexclusion,,203.0.113.8,\n", plan.Options{}, []string{
			`3: kind: "net" is none of its words`, "5: 203.0.113.7 is in no pool of this plan", "6: 203.0.113.8 is in no pool of this plan",
		}},
		"what follows from a pool that cannot be read": {"kind,name,cidr,pool\npool,p,192.0.2.7/24,\nclaim,a,192.0.2.1,\nexclusion,,192.0.2.2,\nexclusion,,192.0.2.3,p\n", plan.Options{}, []string{
			"2: cidr: 192.0.2.7/24 has host bits set",
		}},
	} {
		test.options.Namespace = "default"
		p, wrong := plan.ReadCSV([]byte(test.text), test.options)
		var got []string
		for _, problem := range plan.Join(wrong, p.Check()) {
			got = append(got, problem.Error())
		}
		if len(got) != len(test.want) {
			t.Errorf("%s: the problems are wrong (-want +got):\n%s", name, cmp.Diff(test.want, got))
			continue
		}
		for i := range got {
			if !strings.HasPrefix(got[i], test.want[i]) {
				t.Errorf("%s: a problem is\n%s\nwant\n%s", name, got[i], test.want[i])
			}
		}
	}
}

// A range may have blanks, the dash of a word processor, and a short end.
func TestReadCSV_ReadsRangesInAnyForm(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"192.0.2.8-192.0.2.11", "192.0.2.8 - 192.0.2.11", "192.0.2.8 \u2013 192.0.2.11", "192.0.2.8-11", "192.0.2.8/30"} {
		for form, table := range map[string]string{
			"an exclusion": "kind,name,cidr\npool,p,192.0.2.0/24\nexclusion,,\"" + text + "\"\n",
			"a cell":       "kind,name,cidr,exclude\npool,p,192.0.2.0/24,\"" + text + "\"\n",
		} {
			p, wrong := read(table, plan.Options{})
			if want := "2 p 192.0.2.0/24 [192.0.2.8/30]"; len(wrong) > 0 || blocks(p)[0] != want {
				t.Errorf("%s of %s is read as %q, with the problems %v; want %s", form, text, blocks(p), wrong, want)
			}
		}
	}
}
