package cascade_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/cascade"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/stage"
)

// A deletion is tried again while allocations go, and for the time of Patience after the last one that went.
// Allocations that others make meanwhile do not prolong it.
func TestDeletion_IsPatientFromTheLastAllocationThatWent(t *testing.T) {
	t.Parallel()
	const patience = 30 * time.Second
	for name, tt := range map[string]struct {
		left  []int // how many allocations there are, in steps of 20 seconds; after the last step the range is empty
		whole bool
		free  bool
		took  time.Duration // up to one more second is allowed
	}{
		"fewer each time":                 {[]int{5, 4, 3, 2, 1}, false, true, 100 * time.Second},
		"fewer, and patience is whole":    {[]int{5, 4, 3, 2, 1}, true, false, patience},
		"as many as ever":                 {[]int{5, 5, 5, 5, 5}, false, false, patience},
		"others come":                     {[]int{5, 4, 5, 4, 5, 4, 5}, false, false, 20*time.Second + patience},
		"fewer, and then somebody stays":  {[]int{3, 2, 1, 1, 1, 1}, false, false, 40*time.Second + patience},
		"the last allocation takes a bit": {[]int{0, 0}, false, false, patience},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			at := func() int { return int(time.Since(began) / (20 * time.Second)) }
			claim := gen.Claim("net", gen.ForRange())
			var said []string
			c := interceptor.NewClient(stage.Server(t, interceptor.Funcs{}, claim), interceptor.Funcs{
				Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
					if at() < len(tt.left) {
						return apierrors.NewConflict(ipamv1alpha1.GroupVersion.WithResource("ipclaims").GroupResource(), o.GetName(), nil)
					}
					return c.Delete(ctx, o, opts...)
				},
				List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
					if given := (&client.ListOptions{}).ApplyOptions(opts); given.Limit != 1 {
						t.Errorf("%d allocations are read; want one", given.Limit)
					}
					if more := int64(tt.left[min(at(), len(tt.left)-1)]); more > 0 {
						list.SetRemainingItemCount(&more)
					}
					return nil
				},
			})
			err := cascade.Deletion{WithWatch: c, Patience: patience, Whole: tt.whole, Tell: func(words string) { said = append(said, words) }}.Do(t.Context(), claim)
			if took := time.Since(began); (err == nil) != tt.free || err != nil && !apierrors.IsConflict(err) || took < tt.took || took > tt.took+time.Second {
				t.Errorf("%s: Do = %v after %s; want deleted: %t, after %s", name, err, took, tt.free, tt.took)
			}
			if want := fmt.Sprintf("waiting for claim default/net to be empty: %d allocations are left in the workspace", tt.left[0]); !strings.HasPrefix(strings.Join(said, "|"), want) {
				t.Errorf("%s: it tells %q; want %q first", name, said, want)
			}
		})
	}
}

// A caller may be allowed to list only the allocations of the own namespace. Then the caller waits until these are gone.
// A caller who may list none waits for Patience, and no longer.
func TestDeletion_CountsAllocationsOfANamespace(t *testing.T) {
	t.Parallel()
	for readable, took := range map[bool]time.Duration{true: 40 * time.Second, false: 30 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			claim := gen.Claim("net", gen.ForRange())
			c := interceptor.NewClient(stage.Server(t, interceptor.Funcs{}, claim), interceptor.Funcs{
				Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
					return apierrors.NewServiceUnavailable("nobody can tell now")
				},
				List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
					if given := (&client.ListOptions{}).ApplyOptions(opts); given.Namespace == "" || !readable {
						return apierrors.NewForbidden(ipamv1alpha1.GroupVersion.WithResource("ipallocations").GroupResource(), "", nil)
					}
					if time.Since(began) < 10*time.Second {
						one := int64(1)
						list.SetRemainingItemCount(&one)
					}
					return nil
				},
			})
			err := cascade.Deletion{WithWatch: c, Patience: 30 * time.Second}.Do(t.Context(), claim)
			if since := time.Since(began); !apierrors.IsServiceUnavailable(err) || since < took || since > took+time.Second {
				t.Errorf("readable: %t: Do = %v after %s; want the refusal after %s", readable, err, since, took)
			}
		})
	}
}
