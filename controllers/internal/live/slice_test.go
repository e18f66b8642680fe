package live

import (
	"strings"
	"testing"
	"time"

	apisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	conditionsv1alpha1 "github.com/kcp-dev/sdk/apis/third_party/conditions/apis/conditions/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/must"
)

// gaps are changes after which a slice may lack endpoints, by the field that shows it.
var gaps = map[string]func(*apisv1alpha1.APIExportEndpointSlice){
	"metadata.deletionTimestamp":        func(s *apisv1alpha1.APIExportEndpointSlice) { s.DeletionTimestamp = new(metav1.Now()) },
	"spec.export: it is of :other":      func(s *apisv1alpha1.APIExportEndpointSlice) { s.Spec.APIExport.Name = "other" },
	"spec.export: it is of root:other:": func(s *apisv1alpha1.APIExportEndpointSlice) { s.Spec.APIExport.Path = "root:other" },
	"spec.partition":                    func(s *apisv1alpha1.APIExportEndpointSlice) { s.Spec.Partition = "europe" },
	"status.shardSelector":              func(s *apisv1alpha1.APIExportEndpointSlice) { s.Status.ShardSelector = "region=europe" },
	"status.conditions: APIExportValid is missing": func(s *apisv1alpha1.APIExportEndpointSlice) {
		s.Status.Conditions = s.Status.Conditions[1:]
	},
	"status.conditions: PartitionValid is missing": func(s *apisv1alpha1.APIExportEndpointSlice) {
		s.Status.Conditions = s.Status.Conditions[:1]
	},
	"status.conditions: PartitionValid is": func(s *apisv1alpha1.APIExportEndpointSlice) {
		s.Status.Conditions[1].Status = corev1.ConditionFalse
	},
	"status.conditions: AnyOther is": func(s *apisv1alpha1.APIExportEndpointSlice) {
		s.Status.Conditions = append(s.Status.Conditions, conditionsv1alpha1.Condition{
			Type: "AnyOther", Status: corev1.ConditionUnknown,
		})
	},
}

// If a slice may lack endpoints, no claim and no workspace is found to be gone, and lists fail with an error that names
// the slice and the field. A definite answer of an endpoint in the slice still counts.
func TestPartialView_ProvesNoAbsence(t *testing.T) {
	for field, change := range gaps {
		t.Run(field, func(t *testing.T) {
			here := newSite(t)
			platform, reader := newWorld(t, here)
			platform.serve(poolsPath, noPools)
			partial := func(endpoints ...*site) {
				s := slice(corev1.ConditionTrue, endpoints...)
				change(s)
				platform.serve(slicePath, s)
			}
			partial()
			asks(t, reader, Unknown)
			err := reader.Each(t.Context(), &ipamv1alpha1.IPPoolList{}, ignore)
			if err == nil || !strings.Contains(err.Error(), field) || !strings.Contains(err.Error(), ipamv1alpha1.GroupName) {
				t.Errorf("Each = %v; want an error that names slice %s and %s", err, ipamv1alpha1.GroupName, field)
			}
			partial(here)
			here.bind("9", "v")
			asks(t, reader, Unknown)
			here.bind("9", "w")
			here.lacks()
			asks(t, reader, Gone)
			here.holds("uid-of-c")
			asks(t, reader, Alive)
			if _, ok, err := reader.Census(t.Context()); ok || err != nil {
				t.Errorf("Census = %t, %v; want none", ok, err)
			}
		})
	}
}

// A slice may name the platform by its cluster, by its path, or not at all. None of these is a gap.
func TestGap_AcceptsEachNameOfThePlatform(t *testing.T) {
	platform := newSite(t)
	reader := &Reader{opts: Options{Slice: ipamv1alpha1.GroupName, Platform: "p", Path: "root:ipam"}}
	for _, path := range []string{"", "p", "root:ipam"} {
		s := slice(corev1.ConditionTrue, platform)
		s.Spec.APIExport.Path = path
		if got := reader.view(s); got.gap != "" || len(got.urls) != 1 {
			t.Errorf("a slice of %q:%s has the gap %q and %d endpoints, want none and one", path, s.Spec.APIExport.Name, got.gap, len(got.urls))
		}
	}
}

// The answer Unbound has the time at which the endpoint slice was made.
func TestHolder_TellsTheAgeOfTheSlice(t *testing.T) {
	here := newSite(t)
	platform, reader := newWorld(t, here)
	s := slice(corev1.ConditionTrue, here)
	s.CreationTimestamp = metav1.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	platform.serve(slicePath, s)
	here.bind("9", "v")
	if got := asks(t, reader, Unbound).Since; !got.Equal(s.CreationTimestamp.Time) {
		t.Errorf("Since = %s, want %s", got, s.CreationTimestamp)
	}
}

// Answers succeeds if any endpoint in the slice answers, even if the platform's server is away. It fails if no endpoint
// answers, if all refuse the read, if the slice has no endpoints, or if the slice was never read.
func TestAnswers_NeedsOneEndpointThatAnswers(t *testing.T) {
	here, away, refuses := newSite(t), newSite(t), newSite(t)
	here.bind("9", "w")
	refuses.serve(bindingsPath("*"), forbidden("apibindings", ""))
	away.Close()
	for name, tt := range map[string]struct {
		endpoints []*site
		unread    bool
		want      bool
	}{
		"one of two answers":   {endpoints: []*site{away, here}, want: true},
		"none answers":         {endpoints: []*site{away}},
		"all refuse":           {endpoints: []*site{refuses}},
		"there are none":       {},
		"the slice is unknown": {endpoints: []*site{here}, unread: true},
	} {
		platform, reader := newWorld(t, tt.endpoints...)
		if !tt.unread {
			must.Do(t, reader.Valid(t.Context()))
		}
		platform.Close()
		if err := reader.Answers(t.Context()); (err == nil) != tt.want {
			t.Errorf("%s: Answers = %v; want an answer: %t", name, err, tt.want)
		}
	}
}

// The export is gone if the platform says so. If the platform does not serve APIExports, or is away, ExportGone fails.
func TestExportGone_NeedsTheWordOfThePlatform(t *testing.T) {
	platform, reader := newWorld(t)
	wants := func(of string, gone, fails bool) {
		t.Helper()
		if got, err := reader.ExportGone(t.Context()); got != gone || (err != nil) != fails {
			t.Errorf("of %s: gone %t, %v; want %t, an error: %t", of, got, err, gone, fails)
		}
	}
	wants("a server without exports", false, true)
	platform.serve(exportPath, notFound("apiexports", ipamv1alpha1.GroupName))
	wants("a platform without the export", true, false)
	platform.identify("")
	wants("a platform with the export", false, false)
	platform.Close()
	wants("a platform that is away", false, true)
}
