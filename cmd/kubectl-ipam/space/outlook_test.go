package space

import (
	"testing"
	"time"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/gen"
)

func TestOutlookOf_SaysWhenAPoolIsFull(t *testing.T) {
	now := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		samples, used, free string
		want, soon          string
	}{
		"no samples":   {"", "10", "90", "too little data", ""},
		"not samples":  {"<script>", "10", "90", "too little data", ""},
		"no figures":   {"1772366400=10", "many", "90", "too little data", ""},
		"it fills":     {"1772366400=10", "20", "80", "full in 8 days (last day), full in 56 days (last week), too little data (last month)", "full in 56 days at the rate of the last week"},
		"not any more": {"1772366400=10 1773000000=20", "20", "80", "not full at this rate (last day), full in 56 days (last week), too little data (last month)", "full in 56 days at the rate of the last week"},
		"it stays":     {"1772366400=20", "20", "80", "not full at this rate (last day), not full at this rate (last week), too little data (last month)", ""},
	} {
		t.Run(name, func(t *testing.T) {
			pool := gen.Pool("p")
			pool.Annotations = map[string]string{ipamv1alpha1.AnnotationUsage: tt.samples}
			pool.Status.Capacity = &ipamv1alpha1.PoolCapacity{Total: "100", Allocated: tt.used, Available: tt.free}
			o := OutlookOf(pool, now)
			if o.String() != tt.want || o.Soon() != tt.soon {
				t.Errorf("the outlook is %q, and in short %q; want %q and %q", o, o.Soon(), tt.want, tt.soon)
			}
		})
	}
	if got := OutlookOf(nil, now).String(); got != "too little data" {
		t.Errorf("the outlook of a pool that may not be seen is %q, want too little data", got)
	}
}
