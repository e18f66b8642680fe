package live

import (
	"net/http"
	"strings"
	"testing"
	"time"

	apisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	conditionsv1alpha1 "github.com/kcp-dev/sdk/apis/third_party/conditions/apis/conditions/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/must"
)

// gaps are the changes that leave a slice in doubt, by the field that shows it.
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

// A slice that may lack endpoints proves no absence. What an endpoint that it lists says for
// certain counts.
func TestHolder_APartialView(t *testing.T) {
	for field, change := range gaps {
		t.Run(field, func(t *testing.T) {
			here := newSite(t)
			platform, reader := newWorld(t, here)
			partial := func(endpoints ...*site) {
				s := slice(corev1.ConditionTrue, endpoints...)
				change(s)
				platform.serve(slicePath, s)
			}
			partial()
			asks(t, reader, Unknown)
			partial(here)
			here.bind("9", "v")
			asks(t, reader, Unknown)
			here.bind("9", "w")
			here.lacks()
			asks(t, reader, Gone)
			here.holds("uid-of-c")
			asks(t, reader, Alive)
		})
	}
}

// What is listed through a slice that may lack endpoints is not all there is. The error names
// the slice and the field.
func TestEach_APartialView(t *testing.T) {
	for field, change := range gaps {
		t.Run(field, func(t *testing.T) {
			platform, reader := newWorld(t)
			platform.serve("/apis/ipam.miloapis.com/v1alpha1/ippools", noPools)
			s := slice(corev1.ConditionTrue)
			change(s)
			platform.serve(slicePath, s)
			err := reader.Each(t.Context(), &ipamv1alpha1.IPPoolList{}, func(ledger.ClusterName, client.Object) {})
			if err == nil || !strings.Contains(err.Error(), field) || !strings.Contains(err.Error(), ipamv1alpha1.GroupName) {
				t.Errorf("Each = %v; want an error that names slice %s and %s", err, ipamv1alpha1.GroupName, field)
			}
		})
	}
}

// A slice names the platform as it likes: not at all, by its cluster or by its path.
func TestGap_NoneOfTheOwnExport(t *testing.T) {
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

// What is nowhere is so since the slice was made that lists the endpoints.
func TestHolder_UnboundSinceTheSlice(t *testing.T) {
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

// Any endpoint that the slice has listed answers for all, also when the platform's server is away. One that refuses the read
// does not, nor does a slice without endpoints, or that was never read.
func TestAnswers(t *testing.T) {
	forbidden := notFound("apibindings", "")
	forbidden.Code, forbidden.Reason = http.StatusForbidden, metav1.StatusReasonForbidden
	here, away, refuses := newSite(t), newSite(t), newSite(t)
	here.bind("9", "w")
	refuses.serve(bindingsPath("*"), forbidden)
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

// The export is gone where the platform says so, and not where it does not serve exports, or is away.
func TestExportGone_IsSaidByThePlatform(t *testing.T) {
	platform, reader := newWorld(t)
	const path = "/apis/apis.kcp.io/v1alpha2/apiexports/ipam.miloapis.com"
	if gone, err := reader.ExportGone(t.Context()); gone || err == nil {
		t.Errorf("of a server without exports: %t, %v; want an error", gone, err)
	}
	platform.serve(path, notFound("apiexports", ipamv1alpha1.GroupName))
	if gone, err := reader.ExportGone(t.Context()); !gone || err != nil {
		t.Errorf("of a platform without the export: %t, %v; want that it is gone", gone, err)
	}
	export := &apisv1alpha2.APIExport{TypeMeta: metav1.TypeMeta{APIVersion: "apis.kcp.io/v1alpha2", Kind: "APIExport"}}
	platform.serve(path, export)
	if gone, err := reader.ExportGone(t.Context()); gone || err != nil {
		t.Errorf("of a platform with the export: %t, %v; want that it is there", gone, err)
	}
	platform.Close()
	if gone, err := reader.ExportGone(t.Context()); gone || err == nil {
		t.Errorf("of a platform that is away: %t, %v; want an error", gone, err)
	}
}
