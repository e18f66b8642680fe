package door

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/must"
)

var errAway = errors.New("etcd is away")

// boundAnswer is the answer to a claim that gets a block.
var boundAnswer = Answer{Status: ipamv1alpha1.IPClaimStatus{Phase: ipamv1alpha1.ClaimBound, AllocatedCIDR: "10.0.0.0/28"}}

const boundStatus = `{"phase":"Bound","allocatedCIDR":"10.0.0.0/28"}`

// The status that a client sends never stays, whatever the answer is, and the Answerer does not see it.
func TestAnswer_ReplacesTheStatusThatTheClientSent(t *testing.T) {
	const (
		plain  = `{"metadata":{"name":"a","annotations":{"kcp.io/cluster":"c1"}},"spec":{}}`
		forged = `{"metadata":{"name":"a","annotations":{"kcp.io/cluster":"c1"}},"spec":{},"status":{"phase":"Bound","allocatedCIDR":"192.0.2.0/28"}}`
		absurd = `{"metadata":{"name":"a","annotations":{"kcp.io/cluster":"c1"}},"spec":{},"status":[1,"x",null]}`
		null   = `{"metadata":{"name":"a","annotations":{"kcp.io/cluster":"c1"}},"spec":{},"status":null}`
		named  = `{"metadata":{"name":"a","annotations":{"kcp.io/cluster":"c1"}},"spec":{},"status":` + boundStatus + `}`
	)
	for name, tt := range map[string]struct {
		object string
		answer Answer
		err    error
		want   string
	}{
		"bound":                     {plain, boundAnswer, nil, named},
		"bound, forged status":      {forged, boundAnswer, nil, named},
		"bound, absurd status":      {absurd, boundAnswer, nil, named},
		"unanswered":                {plain, Answer{}, errAway, plain},
		"unanswered, forged status": {forged, Answer{}, errAway, plain},
		"unanswered, absurd status": {absurd, Answer{}, errAway, plain},
		"unanswered, null":          {null, Answer{}, errAway, plain},
	} {
		t.Run(name, func(t *testing.T) {
			s := answering(t, tt.answer, tt.err)
			sameJSON(t, s.created(tt.object), tt.want)
			req := <-s.asked
			if diff := cmp.Diff(ipamv1alpha1.IPClaimStatus{}, req.Claim.Status); diff != "" {
				t.Errorf("the Answerer is shown a status (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnswer_RemovesTheStatusFromManagedFields(t *testing.T) {
	const object = `{"metadata":{"name":"a","annotations":{"kcp.io/cluster":"c1"},"managedFields":[
		{"manager":"m","fieldsV1":{"f:spec":{},"f:status":{"f:phase":{}}}},
		{"manager":"n","subresource":"status","fieldsV1":{"f:status":{}}},
		{"manager":"o"}, {"manager":"p","fieldsV1":{"f:spec":{}}}]},"spec":{}}`
	const want = `{"metadata":{"name":"a","annotations":{"kcp.io/cluster":"c1"},"managedFields":[
		{"manager":"m","fieldsV1":{"f:spec":{}}},
		{"manager":"n","subresource":"status","fieldsV1":{}},
		{"manager":"o"}, {"manager":"p","fieldsV1":{"f:spec":{}}}]},"spec":{},"status":` + boundStatus + `}`
	sameJSON(t, answering(t, boundAnswer, nil).created(object), want)
}

// The response has the warning of the answer, if there is one.
func TestAnswer_ReturnsTheWarning(t *testing.T) {
	for _, want := range [][]string{nil, {"a block beside the ranges"}} {
		s := answering(t, Answer{Status: boundAnswer.Status, Warning: strings.Join(want, "")}, nil)
		resp := s.review(s.answerPath(), creating(`{"metadata":{"name":"a","annotations":{"kcp.io/cluster":"c1"}},"spec":{}}`))
		if !slices.Equal(resp.Warnings, want) {
			t.Errorf("the warnings are %q, want %q", resp.Warnings, want)
		}
	}
}

// The Answerer gets the workspace, the claim, and whether the request is a dry run.
func TestAnswer_AsksWithWorkspaceClaimAndDryRun(t *testing.T) {
	s := answering(t, boundAnswer, nil)
	req := creating(`{"metadata":{"name":"a","namespace":"other","uid":"u","annotations":{"kcp.io/cluster":"c1"}},"spec":{"className":"web","prefixLength":28}}`)
	req.DryRun = new(true)
	s.review(s.answerPath(), req)
	claim := &ipamv1alpha1.IPClaim{Spec: ipamv1alpha1.IPClaimSpec{ClassName: "web", PrefixLength: 28}}
	claim.Name, claim.Namespace, claim.Annotations = "a", "default", map[string]string{"kcp.io/cluster": "c1"}
	if diff := cmp.Diff(Request{Cluster: "c1", Claim: claim, DryRun: true}, <-s.asked); diff != "" {
		t.Errorf("the Answerer is asked (-want +got):\n%s", diff)
	}
}

// A claim with generateName gets its name before the Answerer sees it, and keeps that name.
func TestAnswer_NamesAClaimWithGenerateName(t *testing.T) {
	for generate, want := range map[string]string{
		"web-": `^web-[a-z0-9]{5}$`,
		"a123456789-b123456789-c123456789-d123456789-e123456789-f123456789": `^a123456789-b123456789-c123456789-d123456789-e123456789-f12[a-z0-9]{5}$`,
	} {
		s := answering(t, boundAnswer, nil)
		got := s.created(`{"metadata":{"generateName":"` + generate + `","annotations":{"kcp.io/cluster":"c1"}},"spec":{}}`)
		claim := &ipamv1alpha1.IPClaim{}
		must.Do(t, json.Unmarshal([]byte(got), claim))
		if asked := <-s.asked; asked.Claim.Name != claim.Name || !regexp.MustCompile(want).MatchString(claim.Name) {
			t.Errorf("generateName %s gives %q, the Answerer sees %q; want both to be %s", generate, claim.Name, asked.Claim.Name, want)
		}
	}
	s := answering(t, boundAnswer, nil)
	s.created(`{"metadata":{"name":"a","generateName":"web-","annotations":{"kcp.io/cluster":"c1"}},"spec":{}}`)
	if asked := <-s.asked; asked.Claim.Name != "a" {
		t.Errorf("a claim of the name a is called %q", asked.Claim.Name)
	}
}

// A claim that the server will refuse is not decided. Otherwise its block would be left over for a while, and the
// corrected claim could not get the same address.
func TestAnswer_LeavesAClaimThatTheServerRefusesUndecided(t *testing.T) {
	for what, object := range map[string]string{
		"no managed fields":            `{"metadata":{"name":"a","managedFields":[],"annotations":{"kcp.io/cluster":"c1"}},"spec":{},"status":"x"}`,
		"no name":                      `{"metadata":{"annotations":{"kcp.io/cluster":"c1"}},"spec":{}}`,
		"a name with a slash":          `{"metadata":{"name":"a/b","annotations":{"kcp.io/cluster":"c1"}},"spec":{}}`,
		"a name of two dots":           `{"metadata":{"name":"..","annotations":{"kcp.io/cluster":"c1"}},"spec":{}}`,
		"a name with a percent sign":   `{"metadata":{"name":"a%2fb","annotations":{"kcp.io/cluster":"c1"}},"spec":{}}`,
		"a name of capitals":           `{"metadata":{"name":"WEB","annotations":{"kcp.io/cluster":"c1"}},"spec":{}}`,
		"a name of 254 bytes":          `{"metadata":{"name":"` + strings.Repeat("x", 254) + `","annotations":{"kcp.io/cluster":"c1"}},"spec":{}}`,
		"a generated name of capitals": `{"metadata":{"generateName":"WEB-","annotations":{"kcp.io/cluster":"c1"}},"spec":{}}`,
		"a label with a blank":         `{"metadata":{"name":"a","labels":{"a b":"c"},"annotations":{"kcp.io/cluster":"c1"}},"spec":{}}`,
		"an annotation of two slashes": `{"metadata":{"name":"a","annotations":{"kcp.io/cluster":"c1","a/b/c":""}},"spec":{}}`,
		"an owner without a UID":       `{"metadata":{"name":"a","ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p"}],"annotations":{"kcp.io/cluster":"c1"}},"spec":{}}`,
		"no spec":                      `{"metadata":{"name":"a","annotations":{"kcp.io/cluster":"c1"}}}`,
		"an address with host bits":    `{"metadata":{"name":"a","annotations":{"kcp.io/cluster":"c1"}},"spec":{"address":"10.0.0.7/28"}}`,
		"another reclaim policy":       `{"metadata":{"name":"a","annotations":{"kcp.io/cluster":"c1"}},"spec":{"reclaimPolicy":"Recycle"}}`,
	} {
		s := answering(t, boundAnswer, nil)
		claim := &ipamv1alpha1.IPClaim{}
		must.Do(t, json.Unmarshal([]byte(s.created(object)), claim))
		if len(s.asked) != 0 || claim.Status.Phase != "" {
			t.Errorf("%s: the Answerer was asked %d times, and the claim has the status %+v; want it to be left to the server", what, len(s.asked), claim.Status)
		}
	}
}

// On kcp a claim that names no logical cluster gets no answer. Without kcp the annotation does not count, because
// anybody may write it.
func TestAnswer_NeedsALogicalClusterOnKCP(t *testing.T) {
	const without = `{"metadata":{"name":"a"},"spec":{}}`
	s := answering(t, boundAnswer, nil)
	sameJSON(t, s.created(without), without)
	if len(s.asked) != 0 {
		t.Errorf("the Answerer is asked for %+v, want nothing without a logical cluster", <-s.asked)
	}
	asked := make(chan Request, 1)
	alone := open(t, answererFunc(func(_ context.Context, req Request) (Answer, error) {
		asked <- req
		return boundAnswer, nil
	}), "only")
	alone.created(`{"metadata":{"name":"a","annotations":{"kcp.io/cluster":"c1"}},"spec":{}}`)
	if got := <-asked; got.Cluster != "only" {
		t.Errorf("without kcp the Answerer is asked for cluster %s, want only", got.Cluster)
	}
}

// For a claim that cannot be decoded, the Answerer is not asked, and nothing is counted. The schema will refuse the
// claim.
func TestAnswer_LeavesAnUndecodableClaimUncounted(t *testing.T) {
	s := answering(t, boundAnswer, nil)
	before := counted()
	got := s.created(`{"metadata":{"name":"a"},"spec":{"prefixLength":"long"},"status":{"phase":"Bound"}}`)
	sameJSON(t, got, `{"metadata":{"name":"a"},"spec":{"prefixLength":"long"}}`)
	if len(s.asked) != 0 || !cmp.Equal(before, counted()) {
		t.Errorf("the Answerer is asked %d times, and %v is counted after %v; want neither", len(s.asked), counted(), before)
	}
}

// A CREATE that is refused has the HTTP status that is documented for the reason. The response never asks clients to
// retry by themselves.
func TestAnswer_RefusesWithTheHTTPStatusOfTheReason(t *testing.T) {
	for reason, code := range map[ipamv1alpha1.Reason]int32{
		ipamv1alpha1.ReasonPoolExhausted:        507,
		ipamv1alpha1.ReasonQuotaExceeded:        403,
		ipamv1alpha1.ReasonAddressInUse:         409,
		ipamv1alpha1.ReasonAllocationRetained:   409,
		ipamv1alpha1.ReasonClassNotFound:        422,
		ipamv1alpha1.ReasonNoDefaultClass:       422,
		ipamv1alpha1.ReasonNoOfferingPool:       422,
		ipamv1alpha1.ReasonPoolNotFound:         422,
		ipamv1alpha1.ReasonUnknownProvisioner:   422,
		ipamv1alpha1.ReasonPrefixLengthRejected: 422,
		ipamv1alpha1.ReasonFamilyMismatch:       422,
		ipamv1alpha1.ReasonAddressOutOfRange:    422,
		ipamv1alpha1.ReasonAddressReserved:      422,
		ipamv1alpha1.ReasonScopeRolesMissing:    422,
		ipamv1alpha1.ReasonTargetRejected:       422,
		ipamv1alpha1.ReasonRangeHeld:            409,
		ipamv1alpha1.ReasonRangeExists:          409,
		ipamv1alpha1.ReasonRangeNotHeld:         422,
		ipamv1alpha1.ReasonError:                503,
		"SomethingNew":                          503,
	} {
		answer := Answer{Refuse: true, Pool: "p"}
		answer.Status.Conditions = []metav1.Condition{{Type: ipamv1alpha1.ConditionAllocated, Reason: string(reason), Message: "because"}}
		s := answering(t, answer, nil)
		resp := s.review(s.answerPath(), creating(anyClaim))
		details := &metav1.StatusDetails{
			Group: ipamv1alpha1.GroupName, Kind: "IPClaim", Name: "a", Causes: []metav1.StatusCause{{Type: metav1.CauseType(reason), Message: "because"}},
		}
		if reason == ipamv1alpha1.ReasonPoolExhausted {
			details.Kind, details.Name = "ippools", "p"
			details.Causes = append(details.Causes, metav1.StatusCause{Type: "Exhausted", Message: "because"})
		}
		if reason == ipamv1alpha1.ReasonRangeHeld {
			details.Causes = append(details.Causes, metav1.StatusCause{Type: "ClaimExists", Message: "because"})
		}
		want := &metav1.Status{
			Status: "Failure", Code: code, Reason: statusReasons[code], Message: string(reason) + ": because",
			Details: details,
		}
		if diff := cmp.Diff(want, resp.Result); resp.Allowed || diff != "" {
			t.Errorf("%s: allowed is %t, and the status is (-want +got):\n%s", reason, resp.Allowed, diff)
		}
	}
}

// If nobody can tell whether a claim can be met, a claim that says Refuse is refused. Any other is stored without an
// answer.
func TestAnswer_RefusesAClaimThatSaysRefuseIfNobodyCanTell(t *testing.T) {
	panics := answererFunc(func(context.Context, Request) (Answer, error) { panic("a nil map") })
	hangs := answererFunc(func(ctx context.Context, _ Request) (Answer, error) {
		if ends, ok := ctx.Deadline(); !ok || time.Until(ends) >= timeout {
			t.Errorf("an answer may take until %s (%t), want less than the timeout of %s", ends, ok, timeout)
		}
		<-ctx.Done()
		return Answer{}, ctx.Err()
	})
	fails := answererFunc(func(context.Context, Request) (Answer, error) { return Answer{}, errAway })
	for name, answerer := range map[string]Answerer{"an error": fails, "a panic": panics, "a hang": hangs} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, answerer, "")
			const waits = `{"metadata":{"name":"a","annotations":{"kcp.io/cluster":"c1"}},"spec":{"unmetPolicy":"Wait"}}`
			sameJSON(t, s.created(waits), waits)
			resp := s.review(s.answerPath(), creating(`{"metadata":{"name":"a","annotations":{"kcp.io/cluster":"c1"}},"spec":{"unmetPolicy":"Refuse"}}`))
			if resp.Allowed || resp.Result.Code != http.StatusServiceUnavailable || resp.Result.Details.RetryAfterSeconds != 0 {
				t.Errorf("the response is %+v, want a refusal by 503", resp)
			}
		})
	}
}

// If nobody can tell, a claim whose class says Refuse is refused, too: by the leader, and by a replica that asks the
// leader.
func TestAnswer_RefusesAClaimOfAClassThatSaysRefuseIfNobodyCanTell(t *testing.T) {
	for name, s := range map[string]*scene{
		"the leader": answering(t, Answer{Refuse: true}, errAway), "a standby": answersOf(t, Answer{Refuse: true}, errAway).scene,
	} {
		resp := s.review(s.answerPath(), creating(anyClaim))
		if resp.Allowed || resp.Result.Code != http.StatusServiceUnavailable || resp.Result.Details.Name != "a" {
			t.Errorf("%s: the response is %+v, want a refusal by 503", name, resp)
		}
	}
}

// A refusal names each role that the scope of the claim lacks.
func TestAnswer_NamesEachMissingRole(t *testing.T) {
	answer := Answer{Refuse: true, Roles: []string{"location", "network"}}
	answer.Status.Conditions = []metav1.Condition{{Type: ipamv1alpha1.ConditionAllocated, Reason: "ScopeRolesMissing", Message: "because"}}
	s := answering(t, answer, nil)
	resp := s.review(s.answerPath(), creating(anyClaim))
	want := []metav1.StatusCause{
		{Type: "ScopeRolesMissing", Message: "because", Field: "spec.scope.location"}, {Type: "ScopeRolesMissing", Message: "because", Field: "spec.scope.network"},
	}
	if diff := cmp.Diff(want, resp.Result.Details.Causes); diff != "" {
		t.Errorf("the causes (-want +got):\n%s", diff)
	}
}

// Answers are counted by their result.
func TestAnswer_CountsEachResult(t *testing.T) {
	for _, tt := range []struct {
		answer Answer
		err    error
		result string
	}{
		{boundAnswer, nil, "bound"},
		{Answer{Status: ipamv1alpha1.IPClaimStatus{Phase: ipamv1alpha1.ClaimPending}}, nil, "pending"},
		{Answer{Refuse: true}, nil, "refused"},
		{Answer{}, errAway, "unanswered"},
	} {
		want := counted()
		want[tt.result]++
		s := answering(t, tt.answer, tt.err)
		s.review(s.answerPath(), creating(anyClaim))
		if diff := cmp.Diff(want, counted()); diff != "" {
			t.Errorf("%s is counted (-want +got):\n%s", tt.result, diff)
		}
	}
}

// counted returns the number of answers, by result.
func counted() map[string]float64 {
	counts := map[string]float64{}
	for _, result := range []string{"bound", "pending", "refused", "unanswered"} {
		counts[result] = testutil.ToFloat64(answers.WithLabelValues(result))
	}
	return counts
}

func sameJSON(t *testing.T, got, want string) {
	t.Helper()
	var parsed [2]any
	for i, text := range []string{want, got} {
		if err := json.Unmarshal([]byte(text), &parsed[i]); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
	}
	if diff := cmp.Diff(parsed[0], parsed[1]); diff != "" {
		t.Errorf("the claim is (-want +got):\n%s", diff)
	}
}
