package history

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/etcdtest"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// scene is a real ledger with pool p, 10.0.0.0/24, of workspace w.
type scene struct {
	*testing.T
	ledger *allocator.Allocator
	reader allocator.Reader
}

func newScene(t *testing.T) *scene {
	t.Helper()
	etcd := etcdtest.New(t).Client()
	alloc := testbed.Ledger(t, etcd, allocator.Options{History: time.Hour}, testbed.Pool("w", "p", "10.0.0.0/24"))
	return &scene{T: t, ledger: alloc, reader: allocator.Reader{Client: etcd}}
}

// hold gives one address to claims of w1, one after another. The last claim keeps it.
func (s *scene) hold(claims ...string) {
	s.Helper()
	for i, name := range claims {
		b := must.Get(s.ledger.Bind(s.Context(), ledger.Request{
			Pool: "p", Exact: netip.MustParsePrefix("10.0.0.7/32"),
			Holder: ledger.Holder{Claim: ledger.ClaimID("uid-" + name), Cluster: "w1", Namespace: "default", Name: name},
		}))(s)
		if i < len(claims)-1 {
			must.Do(s, s.ledger.ReleaseFor(s.Context(), b, ledger.CauseReleased))
		}
	}
}

// names know one workspace.
type names struct{}

func (names) Find(path string) (directory.Workspace, bool) {
	return directory.Workspace{Cluster: "w1", Path: "root:one"}, path == "root:one"
}

func (names) Workspace(cluster ledger.ClusterName) directory.Workspace {
	return directory.Workspace{Cluster: cluster, Path: map[ledger.ClusterName]string{"w1": "root:one"}[cluster]}
}

// find returns the names of the holders that a query finds.
func (s *scene) find(q Query) (found []string, answer Answer) {
	s.Helper()
	answer = must.Get(Find(s.Context(), s.reader, names{}, q))(s)
	for _, h := range answer.Holders {
		found = append(found, h.Name)
	}
	return found, answer
}

func TestFind_FindsHoldersByAddressClaimAndTime(t *testing.T) {
	s := newScene(t)
	s.hold("a", "b", "c")
	_, all := s.find(Query{Claim: "uid-a"})
	a := all.Holders[0]
	address := netip.MustParsePrefix("10.0.0.7/32")
	for name, tt := range map[string]struct {
		query Query
		want  []string
	}{
		"an address":                    {Query{Prefix: address}, []string{"a", "b", "c"}},
		"a prefix":                      {Query{Prefix: netip.MustParsePrefix("10.0.0.0/25")}, []string{"a", "b", "c"}},
		"another prefix":                {Query{Prefix: netip.MustParsePrefix("10.0.0.128/25")}, nil},
		"a claim by UID":                {Query{Claim: "uid-b"}, []string{"b"}},
		"a claim by name":               {Query{Claim: "default/b"}, []string{"b"}},
		"a workspace by ID":             {Query{Workspace: "w1"}, []string{"a", "b", "c"}},
		"a workspace by path":           {Query{Workspace: "root:one"}, []string{"a", "b", "c"}},
		"another workspace":             {Query{Workspace: "w2"}, nil},
		"an hour later":                 {Query{Prefix: address, At: time.Now().Add(time.Hour)}, []string{"c"}},
		"since the future":              {Query{Prefix: address, Since: time.Now().Add(time.Hour)}, []string{"c"}},
		"an address, and a claim of it": {Query{Prefix: address, Claim: "uid-c"}, []string{"c"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, _ := s.find(tt.query)
			slices.Sort(got)
			if !slices.Equal(got, tt.want) {
				t.Errorf("found %v, want %v", got, tt.want)
			}
		})
	}
	if a.Workspace != "root:one" || a.Cluster != "w1" || a.Cause != string(ledger.CauseReleased) || a.State != "" || a.Until.IsZero() {
		t.Errorf("the first holder is %+v; want one of root:one that was released", a)
	}
}

// If two networks have the same address at the same time, the scope of each holder names its network, and a query can
// ask for one network. This also holds after the networks are gone.
func TestFind_TellsNetworksApart(t *testing.T) {
	s := newScene(t)
	for _, network := range []string{"red", "blue"} {
		scope := ledger.Scope{"network": {Kind: "Network", Name: network}, "location": {Kind: "Location", Name: "ams"}}
		in := ledger.Derived{Of: "p", Workspace: "w1", Scope: scope}
		must.Get(s.ledger.Bind(t.Context(), ledger.Request{
			Pool: in.ID(), Begins: &in, Exact: netip.MustParsePrefix("10.0.0.7/32"), Holder: ledger.Holder{Claim: ledger.ClaimID(network), Cluster: "w1", Name: network},
		}))(t)
	}
	check := func(when string) {
		t.Helper()
		got, answer := s.find(Query{Prefix: netip.MustParsePrefix("10.0.0.7/32"), Scope: map[string]string{"network": "red"}})
		if !slices.Equal(got, []string{"red"}) || answer.Holders[0].PoolName != "p" || answer.Holders[0].Scope != "location=ams,network=red" {
			t.Errorf("%s, in network red the holders are %+v; want red, in pool p for location=ams,network=red", when, answer.Holders)
		}
		if got, _ := s.find(Query{Scope: map[string]string{"location": "ams"}}); len(got) != 2 {
			t.Errorf("%s, in location ams the holders are %v, want two", when, got)
		}
		if got, _ := s.find(Query{Scope: map[string]string{"location": "am"}}); len(got) != 0 {
			t.Errorf("%s, in location am the holders are %v, want none", when, got)
		}
	}
	check("while both are there")
	for _, network := range []ledger.ClaimID{"red", "blue"} {
		must.Do(t, s.ledger.Release(t.Context(), network))
	}
	must.Do(t, s.ledger.Pools().Retire(t.Context(), "p"))
	check("after the pool is gone")
}

// A holder has the block from its beginning, inclusively, to its end, exclusively.
func TestAdmits_ExcludesTheEndOfATenure(t *testing.T) {
	at := func(minute int) time.Time { return time.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC) }
	ended, lasting := ledger.Tenure{From: at(10), Until: at(20)}, ledger.Tenure{From: at(20)}
	for _, tt := range []struct {
		query          Query
		ended, lasting bool
	}{
		{Query{}, true, true},
		{Query{At: at(9)}, false, false},
		{Query{At: at(10)}, true, false},
		{Query{At: at(20)}, false, true},
		{Query{Since: at(20)}, true, true},
		{Query{Since: at(21)}, false, true},
	} {
		if got := admits(tt.query, ended); got != tt.ended {
			t.Errorf("%+v admits the one from 0:10 to 0:20: %t, want %t", tt.query, got, tt.ended)
		}
		if got := admits(tt.query, lasting); got != tt.lasting {
			t.Errorf("%+v admits the one from 0:20 on: %t, want %t", tt.query, got, tt.lasting)
		}
	}
}

// An answer has the latest holders, and says if there are more.
func TestFind_ReturnsTheLatestHolders(t *testing.T) {
	s := newScene(t)
	var claims []string
	for i := range 150 {
		claims = append(claims, fmt.Sprintf("c%03d", i))
	}
	s.hold(claims...)
	if got, answer := s.find(Query{Workspace: "w1", Limit: 3}); !slices.Equal(got, claims[147:]) || !answer.More {
		t.Errorf("found %v, more = %t; want the latest three of 150", got, answer.More)
	}
	if got, answer := s.find(Query{Workspace: "w1", Limit: 150}); len(got) != 150 || answer.More {
		t.Errorf("found %d, more = %t; want all", len(got), answer.More)
	}
}

func TestFind_RefusesQueriesThatItCannotAnswer(t *testing.T) {
	s := newScene(t)
	for name, tt := range map[string]struct {
		query Query
		names Names
		want  string
	}{
		"nothing":                  {Query{}, names{}, "name an address"},
		"host bits":                {Query{Prefix: netip.MustParsePrefix("10.0.0.7/24")}, names{}, "write 10.0.0.0/24"},
		"two times":                {Query{Claim: "c", At: time.Now(), Since: time.Now()}, names{}, "not both"},
		"no limit":                 {Query{Claim: "c", Limit: -1}, names{}, "at least 1"},
		"an unknown path":          {Query{Workspace: "root:gone"}, names{}, "give the ID of its logical cluster"},
		"a path, and no directory": {Query{Workspace: "root:one"}, nil, "give the ID of the logical cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Find(t.Context(), s.reader, tt.names, tt.query)
			if !errors.Is(err, ErrQuery) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Find: %v; want ErrQuery with %q", err, tt.want)
			}
		})
	}
}

// An answered claim is found by the allocation ID that it shows, and the answer has this ID. A later claim of the same
// name has another ID.
func TestFind_KnowsAllocationIDs(t *testing.T) {
	s := newScene(t)
	address := netip.MustParsePrefix("10.0.0.7/32")
	former, later := promise.NewID("w1", "default", "web"), promise.NewID("w1", "default", "web")
	for _, id := range []ledger.ClaimID{former, later} {
		b := must.Get(s.ledger.Bind(t.Context(), ledger.Request{
			Pool: "p", Exact: address, Holder: ledger.Holder{Claim: id, Cluster: "w1", Namespace: "default", Name: "web"},
		}))(t)
		if id == former {
			must.Do(t, s.ledger.ReleaseFor(t.Context(), b, ledger.CauseCreateFailed))
		}
	}
	for id, want := range map[ledger.ClaimID]string{former: string(ledger.CauseCreateFailed), later: string(ledger.Bound)} {
		_, answer := s.find(Query{Claim: string(id)})
		if len(answer.Holders) != 1 || answer.Holders[0].UID != string(id) || answer.Holders[0].Ending() != want {
			t.Errorf("of %s the answer is %+v; want it alone, %s", id, answer.Holders, want)
		}
	}
	if got, _ := s.find(Query{Claim: "default/web"}); len(got) != 2 {
		t.Errorf("by name %d are found; want both", len(got))
	}
}

// down is a ledger that cannot be read.
type down struct{}

func (down) Tenures(context.Context, netip.Prefix, func(ledger.Tenure, error) bool) (int64, error) {
	return 0, ledger.ErrUnavailable
}

func TestHandler_AnswersOrSaysWhatIsWrong(t *testing.T) {
	s := newScene(t)
	s.hold("a")
	for name, tt := range map[string]struct {
		ledger Ledger
		body   string
		status int
		want   string
	}{
		"an address":  {s.reader, `{"prefix":"10.0.0.7/32"}`, 200, `"uid":"uid-a"`},
		"no query":    {s.reader, `{`, 400, "send a query"},
		"a bad query": {s.reader, `{}`, 400, "name an address"},
		"no ledger":   {down{}, `{"claim":"c"}`, 503, "unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			answer := httptest.NewRecorder()
			Handler(tt.ledger, names{})(answer, httptest.NewRequestWithContext(t.Context(), "POST", "/history", strings.NewReader(tt.body)))
			if answer.Code != tt.status || !strings.Contains(answer.Body.String(), tt.want) {
				t.Errorf("%d %s; want %d with %q", answer.Code, answer.Body, tt.status, tt.want)
			}
		})
	}
}
