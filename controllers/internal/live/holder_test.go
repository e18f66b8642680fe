package live

import (
	"errors"
	"net/http"
	"path"
	"strings"
	"testing"
	"time"

	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/must"
)

// A claim is gone only if a server that serves its workspace says so. The answer shows the object that has the name,
// even if it is another object than the claim.
func TestHolder_FindsAClaimGoneOnlyByAServerOfItsWorkspace(t *testing.T) {
	for name, tt := range map[string]struct {
		answers func(*site)
		want    Verdict
		shows   types.UID
	}{
		"there":                        {func(s *site) { s.bind("9", "w"); s.holds("uid-of-c") }, Alive, "uid-of-c"},
		"not there":                    {func(s *site) { s.bind("9", "w"); s.lacks() }, Gone, ""},
		"another of its name":          {func(s *site) { s.bind("9", "w"); s.holds("uid-of-its-successor") }, Gone, "uid-of-its-successor"},
		"a 404 about nothing":          {func(s *site) { s.bind("9", "w") }, Unknown, ""},
		"a 404 about something else":   {func(s *site) { s.bind("9", "w"); s.serve(claimPath, notFound("namespaces", "default")) }, Unknown, ""},
		"no right to look":             {func(s *site) { s.bind("9", "w"); s.serve(claimPath, forbidden("ipclaims", "c")) }, Unknown, ""},
		"not there, nor bound there":   {func(s *site) { s.bind("9", "v"); s.lacks() }, Unbound, ""},
		"not bound there":              {func(s *site) { s.bind("9", "v") }, Unbound, ""},
		"bound, by the full list only": {func(s *site) { s.serve(bindingsPath("*"), bindingList("9", "v", "w")) }, Unknown, ""},
	} {
		t.Run(name, func(t *testing.T) {
			endpoint := newSite(t)
			tt.answers(endpoint)
			_, reader := newWorld(t, endpoint)
			shown := types.UID("")
			if got := asks(t, reader, tt.want).Object; got != nil {
				shown = got.GetUID()
			}
			if shown != tt.shows {
				t.Errorf("the answer shows the object of UID %q, want %q", shown, tt.shows)
			}
		})
	}
}

// Lacks asks the one server that serves the workspace, and no other.
func TestLacks_AsksOnlyTheServerOfTheWorkspace(t *testing.T) {
	for name, tt := range map[string]struct {
		answers func(*site)
		known   bool // the endpoint of the workspace
		want    bool
	}{
		"not there":                  {(*site).lacks, true, true},
		"there":                      {func(s *site) { s.holds("uid-of-c") }, true, false},
		"another of its name":        {func(s *site) { s.holds("uid-of-its-successor") }, true, false},
		"a 404 about nothing":        {func(*site) {}, true, false},
		"a 404 about something else": {func(s *site) { s.serve(claimPath, notFound("namespaces", "default")) }, true, false},
		"no endpoint is known":       {(*site).lacks, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			endpoint := newSite(t)
			tt.answers(endpoint)
			_, reader := newWorld(t, endpoint)
			if tt.known {
				reader.opts.Endpoint = func(ledger.ClusterName) (string, bool) { return endpoint.URL, true }
			}
			if _, ok, err := reader.Lacks(t.Context(), theClaim); ok != tt.want || err != nil {
				t.Errorf("Lacks = %t, %v; want %t", ok, err, tt.want)
			}
		})
	}
}

// A server tells whether it had the claim at a revision, as long as it keeps that revision.
func TestExisted_AsksTheServerForItsPast(t *testing.T) {
	claims := path.Dir(claimPath)
	none := &ipamv1alpha1.IPClaimList{TypeMeta: claimList("", "c").TypeMeta}
	expired := apierrors.NewResourceExpired("too old").Status()
	expired.TypeMeta = notFound("ipclaims", "c").TypeMeta
	for name, tt := range map[string]struct {
		at             string
		existed, known bool
		answer         any
	}{
		"it existed":             {at: "7", existed: true, known: true, answer: claimList("", "c")},
		"it did not exist":       {at: "7", known: true, answer: none},
		"another had its name":   {at: "7", known: true, answer: claimList("", "of-its-successor")},
		"the server has no past": {at: "7", answer: &expired},
	} {
		t.Run(name, func(t *testing.T) {
			endpoint := newSite(t)
			endpoint.serve(claims+"@"+tt.at+"?metadata.name=c", tt.answer)
			_, reader := newWorld(t, endpoint)
			workspace := must.Get(reader.at(endpoint.URL, "w"))(t)
			existed, known, err := reader.Existed(t.Context(), workspace, theClaim, tt.at)
			if err != nil || existed != tt.existed || known != tt.known {
				t.Errorf("Existed = %t, %t, %v; want %t, %t", existed, known, err, tt.existed, tt.known)
			}
		})
	}
	endpoint := newSite(t)
	endpoint.serve(claims+"@7?metadata.name=c", http.StatusInternalServerError)
	_, reader := newWorld(t, endpoint)
	workspace := must.Get(reader.at(endpoint.URL, "w"))(t)
	if _, known, err := reader.Existed(t.Context(), workspace, theClaim, "7"); err == nil || known {
		t.Errorf("Existed of a server that fails: known = %t, %v; want an error", known, err)
	}
}

// No object may have such a name. So no server has the claim, and none is asked for it. The verdict still depends on
// whether the workspace is bound.
func TestHolder_DoesNotAskForAnInvalidName(t *testing.T) {
	for _, name := range []string{"a/b", "a%2fb", "..", "WEB", strings.Repeat("x", 254)} {
		for workspace, want := range map[string]Verdict{"w": Gone, "v": Unbound} {
			endpoint := newSite(t)
			endpoint.bind("9", workspace)
			_, reader := newWorld(t, endpoint)
			h := theClaim
			h.Name = name
			if answer, err := reader.Holder(t.Context(), h); err != nil || answer.Verdict != want {
				t.Errorf("the verdict on claim %q of workspace w, while %s is bound, is %v, %v; want %v", name, workspace, answer.Verdict, err, want)
			}
		}
	}
}

// Each call reads from the server again, and returns the revision that the server then has.
func TestHolder_ReadsTheServerEachTime(t *testing.T) {
	endpoint := newSite(t)
	_, reader := newWorld(t, endpoint)
	endpoint.bind("9", "w")
	endpoint.holds("uid-of-c")
	asks(t, reader, Alive)
	endpoint.lacks()
	if got := asks(t, reader, Gone).Revision; got != "9" {
		t.Errorf("the server was at %q, want 9", got)
	}
	endpoint.bind("12", "v")
	asks(t, reader, Unbound)
	endpoint.bind("15", "w")
	endpoint.holds("uid-of-c")
	asks(t, reader, Alive)
}

// If a claim is gone, the answer says when kcp bound the present binding of the workspace, even if that binding is
// being deleted. A binding that is not bound yet does not count, and neither does a former binding.
func TestHolder_TellsWhenTheBindingWasBound(t *testing.T) {
	bound := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	former, now, waits := bindingSince("w", bound.Add(-time.Hour)), bindingSince("w", bound), bindingSince("w", time.Time{})
	leaves := bindingSince("w", bound)
	leaves.DeletionTimestamp = new(metav1.NewTime(bound.Add(time.Minute)))
	for name, tt := range map[string]struct {
		bindings []apisv1alpha2.APIBinding
		served   time.Time
	}{
		"a former one is still there": {[]apisv1alpha2.APIBinding{former, now, waits}, bound},
		"it goes":                     {[]apisv1alpha2.APIBinding{leaves}, bound},
		"it goes, and one waits":      {[]apisv1alpha2.APIBinding{waits, leaves}, bound},
		"it is gone, and one waits":   {[]apisv1alpha2.APIBinding{waits}, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			endpoint := newSite(t)
			endpoint.bind("9", "w")
			list := bindingList("9")
			list.Items = tt.bindings
			endpoint.serve(bindingsPath("w"), list)
			endpoint.lacks()
			_, reader := newWorld(t, endpoint)
			if got := asks(t, reader, Gone); !got.Served.Equal(tt.served) {
				t.Errorf("the workspace is served since %s, want %s", got.Served, tt.served)
			}
		})
	}
}

// The workspace is on one shard. The answer of the other shard about the claim does not count.
func TestHolder_BelievesOnlyTheShardOfTheWorkspace(t *testing.T) {
	wrong, right := newSite(t), newSite(t)
	wrong.bind("5", "v")
	wrong.lacks()
	right.bind("9", "w")
	right.holds("uid-of-c")
	_, reader := newWorld(t, wrong, right)
	asks(t, reader, Alive)
	right.lacks()
	if got := asks(t, reader, Gone).Revision; got != "9" {
		t.Errorf("gone by the word of a server at %q, want 9: that of its shard", got)
	}
}

// While a shard is away, or cannot list its bindings, the verdict on an object that may be there is Unknown.
func TestHolder_IsUnknownWhileAShardIsAway(t *testing.T) {
	here, away, ailing := newSite(t), newSite(t), newSite(t)
	here.bind("9", "v")
	away.Close()
	failure := apierrors.NewInternalError(errors.New("etcd is away")).ErrStatus
	ailing.serve(bindingsPath("*"), &failure)
	for _, other := range []*site{away, ailing} {
		_, reader := newWorld(t, here, other)
		if answer, err := reader.Holder(t.Context(), theClaim); err == nil || answer.Verdict != Unknown {
			t.Errorf("verdict = %d, %v; want Unknown and an error", answer.Verdict, err)
		}
	}
}

// A shard that is away, or never answers, does not delay the answers about workspaces of another shard.
func TestHolder_DoesNotWaitForAnotherShard(t *testing.T) {
	here, away, silent := newSite(t), newSite(t), newSite(t)
	away.Close()
	silent.Config.Handler = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	here.bind("9", "v", "w")
	for _, sites := range [][]*site{{here, away}, {away, here}, {here, silent}, {silent, here}} {
		_, reader := newWorld(t, sites...)
		here.holds("uid-of-c")
		asks(t, reader, Alive)
		here.lacks()
		if got := asks(t, reader, Gone).Revision; got != "9" {
			t.Errorf("the server was at %q, want 9", got)
		}
	}
}

// The lists that find a workspace unbound are complete.
func TestHolder_ReadsTheLastPageOfBindings(t *testing.T) {
	endpoint := newSite(t)
	first := bindingList("9", "v")
	first.Continue = "page-2"
	endpoint.serve(bindingsPath("*"), first)
	endpoint.serve(bindingsPath("*")+"?page-2", bindingList("9", "w"))
	_, reader := newWorld(t, endpoint)
	asks(t, reader, Unknown)
}

// When the last tenant leaves, the last endpoint goes, too. That there is none counts only if the slice is valid.
func TestHolder_TrustsAMissingEndpointOnlyIfTheSliceIsValid(t *testing.T) {
	platform, reader := newWorld(t)
	asks(t, reader, NoEndpoint)
	for _, status := range []corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionUnknown, ""} {
		platform.serve(slicePath, slice(status))
		asks(t, reader, Unknown)
	}
}

// A holder in the platform's own workspace is read on the platform.
func TestHolder_ReadsThePlatformsHoldersThere(t *testing.T) {
	platform, reader := newWorld(t)
	holder := ledger.Holder{Claim: "uid-of-p", Cluster: "platform", Name: "p"}
	if answer, err := reader.Holder(t.Context(), holder); err != nil || answer.Verdict != Unknown {
		t.Errorf("a 404 about nothing: verdict = %d, %v; want Unknown", answer.Verdict, err)
	}
	platform.serve(poolsPath+"/p", notFound("ippools", "p"))
	platform.serve(poolsPath, map[string]any{"apiVersion": "ipam.miloapis.com/v1alpha1", "kind": "IPPoolList",
		"metadata": map[string]any{"resourceVersion": "7"}, "items": []any{}})
	answer, err := reader.Holder(t.Context(), holder)
	if err != nil || answer.Verdict != Gone || answer.Revision != "7" {
		t.Errorf("verdict = %d at %q, %v; want Gone at 7", answer.Verdict, answer.Revision, err)
	}
}

// A cluster without kcp answers for itself alone. The same ledger may have blocks of other clusters. Their holders do
// not count as gone.
func TestHolder_KeepsHoldersOfOtherClusters(t *testing.T) {
	platform, _ := newWorld(t)
	reader := must.Get(NewReader(Options{Config: &rest.Config{Host: platform.URL}, Platform: "platform", Scheme: scheme(t)}))(t)
	asks(t, reader, Unknown)
	endpoints, err := reader.Endpoints(t.Context())
	if err != nil || len(endpoints) != 0 {
		t.Errorf("endpoints: %v, %v; want none", endpoints, err)
	}
	if _, ok, err := reader.Census(t.Context()); ok || err != nil {
		t.Errorf("Census = %t, %v; want none", ok, err)
	}
}
