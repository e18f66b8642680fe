package decode

import (
	"errors"
	"io"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/watch"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/must"
)

// odd is a pool whose field leading has a value beyond an int32. A schema without a maximum would admit it.
const odd = `{"apiVersion":"ipam.miloapis.com/v1alpha1","kind":"IPPool","metadata":{"name":"odd","uid":"u1","annotations":{"kcp.io/cluster":"a"}},
"spec":{"reservations":{"leading":2147483648,"trailing":3},"cidr":"10.0.0.0/24"},"status":{"allocatedCIDR":"10.0.0.0/24"}}`

const even = `{"apiVersion":"ipam.miloapis.com/v1alpha1","kind":"IPPool","metadata":{"name":"even","uid":"u2"},"spec":{"cidr":"10.1.0.0/24"}}`

// sameOdd fails the test unless the pool is odd, marked, with all fields that can be decoded.
func sameOdd(t *testing.T, got *ipamv1alpha1.IPPool) {
	t.Helper()
	err := Unreadable(got)
	unreadable, ok := errors.AsType[*UnreadableError](err)
	if !ok || !strings.Contains(err.Error(), "leading") || unreadable.Object != got {
		t.Errorf("Unreadable = %v, want one that names the field leading", err)
	}
	if got.Name != "odd" || got.UID != "u1" || got.Annotations["kcp.io/cluster"] != "a" ||
		got.Spec.Reservations.Trailing != 3 || got.Spec.CIDR != "10.0.0.0/24" || got.Status.AllocatedCIDR != "10.0.0.0/24" {
		t.Errorf("decoded %+v, want all fields but leading", got)
	}
}

// An object that cannot be decoded whole is marked. The objects before and after it are complete.
func TestEvents_MarkAnUnreadableObject(t *testing.T) {
	event := func(kind, object string) string { return `{"type":"` + kind + `","object":` + object + "}\n" }
	var text strings.Builder
	const others = 100 // more than is read ahead
	for range others {
		text.WriteString(event("ADDED", even))
	}
	text.WriteString(event("ADDED", odd) + event("DELETED", odd) + `{"object":` + odd + `,"type":"MODIFIED"}` + event("ADDED", even))
	d := NewEvents(stream(text.String()), &ipamv1alpha1.IPPool{})
	next := func(want watch.EventType) *ipamv1alpha1.IPPool {
		t.Helper()
		kind, obj, err := d.Decode()
		if err != nil || kind != want {
			t.Fatalf("Decode = %s, %v, want %s", kind, err, want)
		}
		return obj.(*ipamv1alpha1.IPPool)
	}
	for range others {
		if got := next(watch.Added); got.Name != "even" || Unreadable(got) != nil {
			t.Fatalf("decoded %+v, want the even one, unmarked", got)
		}
	}
	sameOdd(t, next(watch.Added))
	sameOdd(t, next(watch.Deleted))
	sameOdd(t, next(watch.Modified))
	if got := next(watch.Added); got.Name != "even" || Unreadable(got) != nil {
		t.Errorf("decoded %+v after it, want the even one, unmarked", got)
	}
	if _, _, err := d.Decode(); !errors.Is(err, io.EOF) {
		t.Errorf("Decode at the end = %v, want EOF", err)
	}
}

// An object that cannot be decoded whole spoils no other object of its list.
func TestList_MarksAnUnreadableObject(t *testing.T) {
	const rest = `"metadata":{"resourceVersion":"7","continue":"c","remainingItemCount":9},"apiVersion":"ipam.miloapis.com/v1alpha1","kind":"IPPoolList"}`
	list := &ipamv1alpha1.IPPoolList{}
	must.Do(t, List([]byte(`{"items":[`+even+","+odd+","+even+`],`+rest), list))
	if list.ResourceVersion != "7" || list.Continue != "c" || list.Kind != "IPPoolList" || *list.RemainingItemCount != 9 || len(list.Items) != 3 {
		t.Fatalf("List decoded %+v, want three objects, and what the server says of the list", list)
	}
	sameOdd(t, &list.Items[1])
	for _, i := range []int{0, 2} {
		if got := list.Items[i]; got.Name != "even" || got.Spec.CIDR != "10.1.0.0/24" || got.Status.AllocatedCIDR != "" || Unreadable(&got) != nil {
			t.Errorf("object %d is %+v, want the even one, unmarked", i, got)
		}
	}
}

// List fails if the JSON ends early, wherever it ends.
func TestList_RefusesJSONThatEndsEarly(t *testing.T) {
	for _, text := range []string{``, `{"items":[` + odd, `{"items":[` + odd + `,{"spec":{"reservations":{"leading":2147483648}}}]}`, `{"items":7}`, `[]`} {
		if err := List([]byte(text), &ipamv1alpha1.IPPoolList{}); err == nil {
			t.Errorf("List of %q found nothing wrong", text)
		}
	}
}

// A schema of format date-time admits times that Go cannot read. The other fields of such an object are decoded.
func TestObject_DecodesTheFieldsBesideAnOddTime(t *testing.T) {
	record := &ipamv1alpha1.IPAllocation{}
	err := Object([]byte(`{"metadata":{"name":"r","uid":"u"},"status":{"expires":"2026-01-02t03:04:05z","allocatedCIDR":"10.0.0.0/32",
		"conditions":[{"type":"Ready","lastTransitionTime":"2026-01-02t03:04:05z","status":"True"}]}}`), record)
	if err != nil || Unreadable(record) == nil || record.Status.AllocatedCIDR != "10.0.0.0/32" || record.Status.Conditions[0].Status != "True" {
		t.Errorf("Object = %v, %+v; want the record, marked, with all other fields", err, record)
	}
}
