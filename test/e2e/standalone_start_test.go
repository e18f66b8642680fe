package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A controller that ends and starts again, while nothing is wrong, does not warn, either by an event or in its log.
func standaloneStart(t *testing.T, cluster *framework.Platform) {
	name, owner := framework.Name(t), cluster.User(t, "cluster-admin")
	offer(t, cluster, name, cluster.CIDR(t), gen.DefaultLength(28))
	before, after := gen.Claim("before", gen.OfClass(name)), gen.Claim("after", gen.OfClass(name))
	framework.Bind(t, cluster, before)
	known := warned(t, owner)
	cluster.StopController(t)
	logged := len(cluster.Log(t))
	cluster.StartController(t)
	framework.Bind(t, cluster, after)
	cluster.WaitVerified(t)
	cluster.WaitSwept(t, 2)
	for uid, warning := range warned(t, owner) {
		if _, old := known[uid]; !old {
			t.Errorf("a start warns by an event: %s", warning)
		}
	}
	lines := cluster.Log(t)[logged:]
	if faults := slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return strings.Contains(line, `"level":"info"`) }); len(faults) > 0 || len(lines) == 0 {
		t.Errorf("of %d lines in the log of a start, these are no information: %s", len(lines), strings.Join(faults, "\n"))
	}
}

// warned returns the controller's warning events as texts.
func warned(t *testing.T, c client.Reader) map[types.UID]string {
	t.Helper()
	found := map[types.UID]string{}
	framework.Eventually(t, "the events", func(ctx context.Context) error {
		events := &corev1.EventList{}
		err := c.List(ctx, events)
		for _, e := range events.Items {
			if e.Type == corev1.EventTypeWarning && (e.ReportingController == "ipam-controller" || e.Source.Component == "ipam-controller") {
				found[e.UID] = fmt.Sprintf("%s %s/%s: %s: %s", e.InvolvedObject.Kind, e.InvolvedObject.Namespace, e.InvolvedObject.Name, e.Reason, e.Message)
			}
		}
		return err
	})
	return found
}
