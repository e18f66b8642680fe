package check

import (
	"context"
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/stage"
)

// The versions of the controller are read from the classes, each once. A user who sees no class gets none, and no
// error.
func TestController_ReadsTheVersionFromClasses(t *testing.T) {
	served := func(name, version string) client.Object {
		class := gen.Class(name)
		class.Annotations = map[string]string{ipamv1alpha1.AnnotationController: version}
		return class
	}
	for want, objects := range map[string][]client.Object{
		"":       {gen.Class("of an older controller")},
		"v1":     {served("a", "v1"), served("b", "v1"), gen.Class("c")},
		"v1, v2": {served("a", "v2"), served("b", "v1")},
	} {
		if got, err := controller(t.Context(), stage.Server(t, interceptor.Funcs{}, objects...)); got != want || err != nil {
			t.Errorf("the controller is %q, %v; want %q", got, err, want)
		}
	}
	away := errors.New("the server is away")
	for given, want := range map[error]error{
		apierrors.NewForbidden(ipamv1alpha1.GroupVersion.WithResource("ipclasses").GroupResource(), "", away): nil, away: away,
	} {
		c := interceptor.NewClient(stage.Server(t, interceptor.Funcs{}), interceptor.Funcs{
			List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return given },
		})
		if got, err := controller(t.Context(), c); got != "" || !errors.Is(err, want) {
			t.Errorf("where classes fail with %v, the controller is %q, %v; want none, %v", given, got, err, want)
		}
	}
}
