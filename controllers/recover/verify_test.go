package recover

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/must"
)

const blockOfA = "spaces/uid-of-root/blocks/010.000.000.000-28"

// past adds a tenure of 10.0.0.0/28 to the history.
func (s *scene) past(uid string, revision int, from, until string) {
	s.Helper()
	millis := func(text string) int64 {
		return must.Get(time.Parse(time.RFC3339, text))(s).UnixMilli()
	}
	s.put(fmt.Sprintf("history/010.000.000.000-24/uid-of-root/%016x.000", revision), fmt.Sprintf(
		`{"v":1,"t":[{"p":"10.0.0.0/28","r":%d,"o":"uid-of-root","c":%q,"w":"w","s":"default","n":"x","f":%d,"u":%d,"y":"Released"}]}`,
		revision, uid, millis(from), millis(until)))
}

// Tenures of a block that follow each other are no finding, even if they overlap by seconds, because the clocks of
// replicas differ. Tenures in other spaces may overlap.
func TestVerify_AcceptsAHistoryInOrder(t *testing.T) {
	s := newScene(t)
	s.past("uid-of-x", 1, "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z")
	s.past("uid-of-y", 2, "2026-01-01T00:59:30Z", "2026-01-01T02:00:00Z")
	s.put("history/010.000.000.000-24/elsewhere/0000000000000001.000", `{"v":1,"t":[{"p":"10.0.0.0/28","r":1,"o":"p","c":"c","w":"w","n":"c","f":1767227400000,"u":1767231000000,"y":"PoolRetired"}]}`)
	s.wants()
}

// Each kind of finding appears for the damage that should cause it. The fields want and repair have its kind and its
// repair. The field named also has the kinds of the findings that follow from the same damage.
func TestVerify_FindsEachKindOfDamage(t *testing.T) {
	tested := map[Kind]bool{}
	for _, tt := range []struct {
		name   string
		damage func(s *scene)
		want   Kind
		also   []Kind
		about  string
		repair Repair
	}{
		{"a block within another", func(s *scene) {
			s.put("spaces/uid-of-root/blocks/010.000.000.008-32", strings.ReplaceAll(s.valueOfA(), "uid-of-a", "uid-of-b"))
		}, OverlappingBlocks, []Kind{BlockWithoutClaim, ClaimKeyMismatch}, "a", ""},
		{"overlapping roots", func(s *scene) {
			s.put("pools/uid-of-x", `{"v":1,"space":"uid-of-x","cidr":"10.0.128.0/17","state":"active","cluster":"w","name":"x"}`)
			s.put("spaces/uid-of-x/head", `{"v":1,"n":1}`)
			s.show("x", "10.0.128.0/17", "32768", "0", "32768")
		}, OverlappingPools, nil, "x", ""},
		{"a block without the claim's key", func(s *scene) { s.remove("claims/uid-of-a") }, ClaimKeyMismatch, nil, "a", ""},
		{"a claim's key without the block", func(s *scene) {
			s.put("claims/uid-of-b", `{"v":1,"space":"uid-of-root","prefix":"10.0.7.0/24"}`)
		}, ClaimKeyMismatch, nil, "", ""},
		{"two blocks of a claim", func(s *scene) {
			s.put("spaces/uid-of-root/blocks/010.000.008.000-28", s.valueOfA())
			s.show("root", "10.0.0.0/16", "65536", "560", "64976")
		}, SeveralBlocks, nil, "a", ""},
		{"a block outside its pool", func(s *scene) {
			s.put("spaces/uid-of-root/blocks/010.001.000.000-28", strings.ReplaceAll(s.valueOfA(), "uid-of-a", "uid-of-b"))
			s.put("claims/uid-of-b", `{"v":1,"space":"uid-of-root","prefix":"10.1.0.0/28"}`)
		}, BlockOutsidePool, []Kind{BlockWithoutClaim}, "a", ""},
		{"a block of no pool", func(s *scene) {
			s.put(blockOfA, strings.ReplaceAll(s.valueOfA(), "uid-of-root", "uid-of-none"))
		}, BlockOutsidePool, nil, "a", ""},
		{"a child without its block", func(s *scene) {
			s.remove("spaces/uid-of-root/blocks/010.000.001.000-24")
			s.remove("claims/uid-of-child")
		}, ChildWithoutBlock, []Kind{CapacityMismatch}, "child", ""},
		{"a space without head", func(s *scene) { s.remove("spaces/uid-of-root/head") }, SpaceWithoutHead, nil, "uid-of-root", ""},
		{"a cooldown that nobody has ended", func(s *scene) {
			s.cool(time.Hour)
			s.Clock = later{by: time.Hour + overdue + time.Minute}
			delete(s.claims, "a")
			delete(s.records, "a")
		}, BlockOverdue, nil, "a", ""},
		{"a record of what another claim has", func(s *scene) { s.publish("b", "10.0.0.0/28") }, ClaimWithoutBlock, []Kind{RecordWithoutBlock}, "b", LookAtClaim},
		{"two holders of a block at a time", func(s *scene) {
			s.past("uid-of-x", 1, "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z")
			s.past("uid-of-y", 2, "2026-01-01T00:58:00Z", "2026-01-01T02:00:00Z")
		}, HistoryMismatch, nil, "x", ""},
		{"a time that ends in the future", func(s *scene) {
			s.past("uid-of-x", 1, "2026-01-01T00:00:00Z", time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
		}, HistoryMismatch, nil, "x", ""},
		{"a damaged record of the history", func(s *scene) { s.put("history/010.000.000.000-24/s/1.0", "{") },
			Unreadable, nil, "/ipam/v1/history/010.000.000.000-24/s/1.0", ""},
		{"a damaged key", func(s *scene) { s.put("pools/uid-of-x", "{") }, Unreadable, nil, "/ipam/v1/pools/uid-of-x", ""},
		{"a damaged block", func(s *scene) { s.put(blockOfA, "{") }, Unreadable, nil, "/ipam/v1/" + blockOfA, ""},
		{"a block of the future", func(s *scene) { s.put("spaces/uid-of-root/blocks/010.000.001.000-24", `{"v":9}`) },
			Unreadable, nil, "/ipam/v1/spaces/uid-of-root/blocks/010.000.001.000-24", ""},
		{"a value of the future", func(s *scene) { s.put("pools/uid-of-x", `{"v":9}`) }, Unreadable, nil, "/ipam/v1/pools/uid-of-x", ""},

		{"a claim that is gone", func(s *scene) { delete(s.claims, "a") }, BlockWithoutClaim, nil, "a", ConfirmRelease},
		{"a child pool that is gone", func(s *scene) { delete(s.pools, "child") },
			BlockWithoutClaim, []Kind{PoolWithoutObject}, "child", ConfirmRelease},
		{"an address that was not given", func(s *scene) { must.Do(s, s.ledger.Release(s.Context(), "uid-of-a")) },
			ClaimWithoutBlock, []Kind{CapacityMismatch, RecordWithoutBlock}, "a", LookAtClaim},
		{"another address", func(s *scene) { s.claims["a"].Status.AllocatedCIDR = "10.0.0.32/28" }, ClaimMismatch, nil, "a", LookAtClaim},
		{"an address that is not shown", func(s *scene) { s.claims["a"].Status = ipamv1alpha1.IPClaimStatus{} }, ClaimMismatch, nil, "a", LookAtClaim},
		{"a claim of another name", func(s *scene) { s.claims["a"].Name = "b" }, ClaimMismatch, nil, "a", ""},
		{"a retained block of a claim that lives", func(s *scene) {
			_, _, err := s.ledger.Retained().Retain(s.Context(), "uid-of-a", time.Time{})
			must.Do(s, err)
		}, ClaimMismatch, []Kind{RecordMismatch}, "a", ""},
		{"a record that is gone", func(s *scene) { delete(s.records, "a") }, BlockWithoutRecord, nil, "a", LookAtClaim},
		{"a retained record that is gone", func(s *scene) { delete(s.records, "r") }, BlockWithoutRecord, nil, "r", ConfirmRelease},
		{"a record of no block", func(s *scene) {
			must.Do(s, s.ledger.Release(s.Context(), "uid-of-a"))
			delete(s.claims, "a")
		}, RecordWithoutBlock, []Kind{CapacityMismatch}, "a", ConfirmRelease},
		{"a retained record of no block", func(s *scene) { must.Do(s, s.ledger.Release(s.Context(), "uid-of-r")) },
			RecordWithoutBlock, []Kind{CapacityMismatch}, "r", ""},
		{"a lease that was over long ago", func(s *scene) { s.lease(-time.Hour) }, LeaseOverdue, nil, "late", ConfirmRelease},
		{"a record that expires at another time", func(s *scene) {
			s.lease(time.Hour)
			s.records["late"].Status.Expires = nil
		}, RecordMismatch, nil, "late", ConfirmRelease},
		{"a record of another block", func(s *scene) { s.records["a"].Status.AllocatedCIDR = "10.0.0.32/28" }, RecordMismatch, nil, "a", ""},
		{"a record of another policy", func(s *scene) { s.records["a"].Spec.ReclaimPolicy = ipamv1alpha1.ReclaimRetain }, RecordMismatch, nil, "a", ""},
		{"a record without claim", func(s *scene) { s.unclaim("a") }, RecordMismatch, nil, "a", ConfirmRelease},
		{"a record under another name", func(s *scene) { s.records["a"].Name = "alloc-x" }, RecordMismatch, nil, "a", ""},
		{"an APIExport that is gone", func(s *scene) { s.gone = errGone }, ExportGone, nil, ipamv1alpha1.GroupName, ""},
		{"an APIExport of another identity", func(s *scene) { s.replaced = "it has another identity" }, ExportReplaced, nil, ipamv1alpha1.GroupName, ""},
		{"a pool that is gone", func(s *scene) { delete(s.pools, "root") }, PoolWithoutObject, nil, "root", ConfirmRelease},
		{"a pool that was never entered", func(s *scene) { s.show("x", "10.9.0.0/16", "65536", "0", "65536") }, PoolNotRegistered, nil, "x", ""},
		{"a pool of another CIDR", func(s *scene) { s.pools["child"].Status.AllocatedCIDR = "10.0.2.0/24" }, PoolMismatch, nil, "child", ""},
		{"wrong figures", func(s *scene) { s.show("root", "10.0.0.0/16", "65536", "543", "64993") }, CapacityMismatch, nil, "root", LookAtPool},
	} {
		tested[tt.want] = true
		t.Run(tt.name, func(t *testing.T) {
			s := newScene(t)
			tt.damage(s)
			want := append(slices.Clone(tt.also), tt.want)
			slices.Sort(want)
			findings := s.wants(want...)
			main := findings[slices.IndexFunc(findings, func(f Finding) bool { return f.Kind == tt.want })]
			if main.Name != tt.about || main.Repair != tt.repair || main.Message == "" {
				t.Errorf("found %+v, want it about %q and repaired by %q", main, tt.about, tt.repair)
			}
		})
	}
	for _, kind := range Kinds() {
		if !tested[kind] {
			t.Errorf("nothing makes a finding %s", kind)
		}
	}
}

func TestKinds_AreExplained(t *testing.T) {
	docs := must.Get(os.ReadFile("../../docs/verify.md"))(t)
	for _, kind := range Kinds() {
		if !strings.Contains(string(docs), "| `"+string(kind)+"` |") {
			t.Errorf("docs/verify.md has no line on %s", kind)
		}
	}
}

func TestVerify_FindsNothingIfNothingDiffers(t *testing.T) {
	s := newScene(t)
	s.hold("leaves", "10.0.0.32/28")
	s.claims["leaves"].DeletionTimestamp = new(metav1.Now())
	delete(s.records, "leaves") // as when its namespace goes
	s.claims["waits"] = s.claims["a"].DeepCopy()
	s.claims["waits"].UID, s.claims["waits"].Status = "uid-of-waits", ipamv1alpha1.IPClaimStatus{Phase: ipamv1alpha1.ClaimPending}
	must.Do(s, s.ledger.Pools().Retire(s.Context(), "uid-of-child"))
	delete(s.pools, "child")
	s.show("root", "10.0.0.0/16", "65536", "304", "65232")
	if s.wants(); s.looks != 1 {
		t.Errorf("found nothing in %d looks, want one", s.looks)
	}
}

func TestVerify_CountsExcludedAddressesOfABlockOnce(t *testing.T) {
	s := newScene(t)
	s.hold("b", "10.0.254.0/24")
	must.Do(s, s.ledger.Pools().Exclude(s.Context(), "uid-of-root", []netip.Prefix{netip.MustParsePrefix("10.0.254.0/25"), netip.MustParsePrefix("10.0.255.0/24")}))
	s.show("root", "10.0.0.0/16", "65536", "800", "64736")
	s.wants()
}

// A lease that has not ended, or ended a moment ago, is no finding.
func TestVerify_AcceptsALeaseThatIsNotOverdue(t *testing.T) {
	for _, left := range []time.Duration{time.Hour, -time.Second} {
		s := newScene(t)
		s.lease(left)
		s.wants()
	}
}

// cool turns the block of the claim "a" into a cooling one, whose cooldown ends after this time. To end a cooldown for
// the verifier alone, move the verifier's clock: the allocator of the test frees a block when its cooldown is over.
func (s *scene) cool(left time.Duration) {
	s.Helper()
	state := fmt.Sprintf(`"state":"cooling","until":%q`, time.Now().Add(left).UTC().Format(time.RFC3339))
	s.put(blockOfA, strings.Replace(s.valueOfA(), `"state":"bound"`, state, 1))
}

// lease makes a retained block in the pool root, with its IPAllocation. It was the block of a deleted claim named late.
// The lease ends after this time.
func (s *scene) lease(left time.Duration) {
	s.Helper()
	until := time.Now().Add(left).Truncate(time.Second)
	s.hold("late", "10.0.0.48/28")
	s.retain("late", until)
	s.records["late"].Status.Expires = new(metav1.NewTime(until))
	s.show("root", "10.0.0.0/16", "65536", "560", "64976")
}

// A difference counts as a finding only if the second comparison finds it again, unchanged.
func TestVerify_ReportsNoDifferenceThatChanges(t *testing.T) {
	for name, tt := range map[string]struct{ before, between func(s *scene) }{
		"a record that is written": {
			func(s *scene) { delete(s.records, "a") },
			func(s *scene) { s.hold("a", "10.0.0.0/28") },
		},
		"a block that is freed": {
			func(s *scene) { delete(s.claims, "a"); delete(s.records, "a") },
			func(s *scene) {
				must.Do(s, s.ledger.Release(s.Context(), "uid-of-a"))
				s.show("root", "10.0.0.0/16", "65536", "528", "65008")
			},
		},
		"figures that follow": {
			func(s *scene) { s.show("root", "10.0.0.0/16", "65536", "1", "65535") },
			func(s *scene) { s.show("root", "10.0.0.0/16", "65536", "2", "65534") },
		},
		"a block that was given again": {
			func(s *scene) { delete(s.records, "a") },
			func(s *scene) {
				must.Do(s, s.ledger.Release(s.Context(), "uid-of-a"))
				s.hold("a", "10.0.0.0/28")
				delete(s.records, "a")
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			tt.before(s)
			s.between = func() { tt.between(s) }
			if s.wants(); s.looks != 2 {
				t.Errorf("found nothing in %d looks, want two", s.looks)
			}
		})
	}
}

// If some objects cannot be read, Verify returns no report. Otherwise these objects would seem to be missing.
func TestVerify_ReportsNothingIfAnObjectCannotBeRead(t *testing.T) {
	s := newScene(t)
	away := errors.New("a shard is away")
	s.World = unreadable(func() error { return away })
	if report, err := s.Verify(t.Context()); !errors.Is(err, away) || report.Findings != nil {
		t.Errorf("verify = %+v, %v", report, err)
	}
}

// unreadable is a World that cannot be read.
type unreadable func() error

func (w unreadable) ExportGone(context.Context) (bool, error) { return false, w() }

func (w unreadable) Replaced(context.Context) (string, error) { return "", w() }

func (w unreadable) Each(context.Context, client.ObjectList, func(ledger.ClusterName, client.Object)) error {
	return w()
}
