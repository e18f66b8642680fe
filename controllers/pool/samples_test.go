package pool

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A sample is written when the number has changed, and not more often than once an hour. Until it
// may be, the pool is looked at again.
func TestSample(t *testing.T) {
	born := time.Unix(1_000_000, 0)
	hours := func(n float64) time.Time { return born.Add(time.Duration(n * float64(time.Hour))) }
	five := fmt.Sprintf("%d=5", hours(2).Unix())
	for name, tt := range map[string]struct {
		has  string
		hour float64
		used string
		want string
		due  time.Duration
	}{
		"while the pool is young":  {"", 0.5, "5", "", 30 * time.Minute},
		"the first":                {"", 2, "5", five, 0},
		"nothing has changed":      {five, 100, "5", five, 0},
		"within the hour":          {five, 2.25, "6", five, 45 * time.Minute},
		"an hour later":            {five, 3, "6", five + fmt.Sprintf(" %d=6", hours(3).Unix()), 0},
		"what somebody has edited": {"many", 2, "5", five, 0},
	} {
		t.Run(name, func(t *testing.T) {
			pool := gen.Pool("p")
			pool.CreationTimestamp = metav1.NewTime(born)
			if tt.has != "" {
				pool.Annotations = map[string]string{ipamv1alpha1.AnnotationUsage: tt.has}
			}
			p := &pass{Reconciler: &Reconciler{now: func() time.Time { return hours(tt.hour) }}, pool: pool}
			p.sample(t.Context(), capacity("256", tt.used, 25))
			if got := pool.Annotations[ipamv1alpha1.AnnotationUsage]; got != tt.want || p.samples.String() != tt.want || p.due != tt.due {
				t.Errorf("the annotation is %q, the samples %q, the next due in %s; want %q and %s", got, p.samples, p.due, tt.want, tt.due)
			}
		})
	}
}
