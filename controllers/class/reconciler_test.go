package class

import (
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/gen"
)

// reasons are those of Ready, Reconciling and Stalled; empty where there is none.
func reasons(class *ipamv1alpha1.IPClass) [3]string {
	var found [3]string
	for i, kind := range []string{ipamv1alpha1.ConditionReady, ipamv1alpha1.ConditionReconciling, ipamv1alpha1.ConditionStalled} {
		if c := meta.FindStatusCondition(class.Status.Conditions, kind); c != nil {
			found[i] = string(c.Status) + " " + c.Reason
		}
	}
	return found
}

func TestReport(t *testing.T) {
	older := gen.Class("older", gen.Default(), gen.Created(time.Unix(1, 0)))
	for _, tt := range []struct {
		name  string
		class *ipamv1alpha1.IPClass
		phase ipamv1alpha1.ClassPhase
		want  [3]string
	}{
		{"sound", gen.Class("c"), ipamv1alpha1.ClassReady, [3]string{"True Validated", "", ""}},
		{
			"of another service", gen.Class("c", gen.Provisioner("example.com/other")), ipamv1alpha1.ClassError,
			[3]string{"False UnknownProvisioner", "", "True UnknownProvisioner"},
		},
		{
			"a second default", gen.Class("c", gen.Default(), gen.Created(time.Unix(2, 0))), ipamv1alpha1.ClassPending,
			[3]string{"False DefaultConflict", "True DefaultConflict", ""},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			class, away := tt.class, errors.New("the cache is away")
			if err := fail(class, away); !errors.Is(err, away) {
				t.Errorf("the log is told %v; want %v", err, away)
			}
			if class.Status.Phase != ipamv1alpha1.ClassPending || reasons(class) != [3]string{"False Error", "True Error", ""} {
				t.Errorf("a class not looked at yet is %s with %q", class.Status.Phase, reasons(class))
			}
			refusal := check(class, []*ipamv1alpha1.IPClass{older, class})
			report(class, 1, refusal)
			if class.Status.Phase != tt.phase || reasons(class) != tt.want {
				t.Errorf("phase %s with %q, want %s with %q", class.Status.Phase, reasons(class), tt.phase, tt.want)
			}
			again := class.DeepCopy()
			report(again, 1, refusal)
			if !equality.Semantic.DeepEqual(class, again) {
				t.Error("a second look changes the status")
			}
			if err := fail(again, away); !errors.Is(err, away) || again.Status.Phase != tt.phase {
				t.Errorf("a fault makes the phase %s", again.Status.Phase)
			}
		})
	}
}

// A class says the version of the controller. Two controllers that both lead do not write in turns.
func TestSign(t *testing.T) {
	class := gen.Class("c")
	older, newer := &Reconciler{Options: Options{Version: "v1"}}, &Reconciler{Options: Options{Version: "v2"}}
	for i, step := range []struct {
		by   *Reconciler
		want string
	}{{older, "v1"}, {older, "v1"}, {newer, "v2"}, {older, "v2"}, {newer, "v2"}, {&Reconciler{Options: Options{Version: "v1"}}, "v1"}, {newer, "v1"}} {
		step.by.sign(class)
		if got := class.Annotations[ipamv1alpha1.AnnotationController]; got != step.want {
			t.Errorf("step %d: after %s the class says %q; want %q", i, step.by.Version, got, step.want)
		}
	}
}
