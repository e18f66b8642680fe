package claim

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/stage"
)

// network is a server that refuses to delete a range while there is a claim inside, as the API server does. It notes
// the names of deleted claims in their order.
type network struct {
	client.WithWatch
	mu        sync.Mutex
	blocks    map[string]netip.Prefix
	releases  []string
	onRelease func(released int)
}

// newNetwork returns a network 10.0.0.0/8 with a location 10.1.0.0/16, and this number of endpoints in the location.
func newNetwork(t *testing.T, endpoints int) *network {
	t.Helper()
	in := func(pool string) ipamv1alpha1.PoolRef { return ipamv1alpha1.PoolRef{Name: pool} }
	objects := []client.Object{
		gen.Pool("net"), gen.Pool("ams", gen.ChildOf("net", 16)),
		stage.Bound(gen.Claim("net", gen.ForRange()), "10.0.0.0/8", in("net")),
		stage.Bound(gen.Claim("ams", gen.ForRange()), "10.1.0.0/16", in("ams")),
	}
	n := &network{blocks: map[string]netip.Prefix{"net": netip.MustParsePrefix("10.0.0.0/8"), "ams": netip.MustParsePrefix("10.1.0.0/16")}}
	for i := range endpoints {
		name, block := fmt.Sprintf("eth%05d", i), netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}), 32)
		claim := stage.Bound(gen.Claim(name), block.String(), in("ams"))
		claim.Namespace = []string{"default", "other"}[i%2]
		n.blocks[name] = block
		objects = append(objects, claim)
	}
	n.WithWatch = stage.Server(t, interceptor.Funcs{Delete: n.delete}, objects...)
	return n
}

func (n *network) delete(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	own, inside := n.blocks[o.GetName()], 0
	if own.Bits() < 32 {
		for name, block := range n.blocks {
			if name != o.GetName() && own.Contains(block.Addr()) {
				inside++
			}
		}
	}
	if inside > 0 {
		return apierrors.NewConflict(ipamv1alpha1.Resource("ipclaims"), o.GetName(), fmt.Errorf("the range %s is in use", own))
	}
	if err := c.Delete(ctx, o, opts...); err != nil {
		return err
	}
	delete(n.blocks, o.GetName())
	n.releases = append(n.releases, o.GetName())
	if n.onRelease != nil {
		n.onRelease(len(n.releases))
	}
	return nil
}

// Claims inside a range are released before the range, whatever their order on the command line.
func TestRelease_OrdersByItself(t *testing.T) {
	for _, names := range [][]string{{"net", "ams", "eth00000"}, {"ams", "eth00000", "net"}, {"eth00000", "ams", "net"}} {
		n := newNetwork(t, 1)
		must.Do(t, (&removal{Session: stage.New(t).Session}).release(t.Context(), n, "default", names))
		if want := []string{"eth00000", "ams", "net"}; !slices.Equal(n.releases, want) {
			t.Errorf("claim release %v releases %v; want %v", names, n.releases, want)
		}
	}
}

// Without --cascade, a range in use is refused, and the other claims are released. The error says how many are left,
// and how to go on.
func TestRelease_SaysWhatIsLeft(t *testing.T) {
	n, s := newNetwork(t, 2), stage.New(t)
	err := (&removal{Session: s.Session}).release(t.Context(), n, "default", []string{"ams", "eth00000", "nothing"})
	for _, want := range []string{"the range 10.1.0.0/16 is in use", `"nothing" not found`, "1 of 3 claims released; run it again with --ignore-not-found (left: default/nothing, default/ams)"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("release = %v; want it to say %q", err, want)
		}
	}
	if want := "claim default/eth00000 is released: 10.1.0.0/32"; !strings.Contains(s.Said.String(), want) {
		t.Errorf("it says %q; want %q", s.Said, want)
	}
	if err := (&removal{Session: s.Session, missing: true}).release(t.Context(), n, "default", []string{"eth00000", "nothing"}); err != nil {
		t.Errorf("with --ignore-not-found, release = %v; want success", err)
	}
}

// With --cascade, ten thousand claims of two namespaces inside a network are released, even if --wait is short. If the
// command is interrupted, the error says how many were released, and the same command goes on.
func TestRelease_CascadesOverTenThousandClaims(t *testing.T) {
	const endpoints, before = 10_000, 2_500
	n, s := newNetwork(t, endpoints), stage.New(t)
	ctx, interrupt := context.WithCancel(t.Context())
	n.onRelease = func(released int) {
		if released == before {
			interrupt()
		}
	}
	o := &removal{Session: s.Session, cascade: true, wait: time.Millisecond}
	err := o.release(ctx, n, "default", []string{"net"})
	if want := fmt.Sprintf("interrupted: %d of %d claims released; run it again (left: ", before, endpoints+2); err == nil || !strings.HasPrefix(err.Error(), want) || exit.CodeOf(err) != exit.Aborted {
		t.Errorf("interrupted, release = %v, with code %d; want %q and %d", err, exit.CodeOf(err), want, exit.Aborted)
	}
	n.onRelease = nil
	must.Do(t, o.release(t.Context(), n, "default", []string{"net"}))
	if got := n.releases[endpoints:]; !slices.Equal(got, []string{"ams", "net"}) {
		t.Errorf("released last are %v; want the ranges ams and net", got)
	}
	if want := "claim default/net is released: 10.0.0.0/8"; !strings.Contains(s.Said.String(), want) {
		t.Errorf("it says %q; want %q", s.Said, want)
	}
}

// If the server takes a range for one in use a moment longer, it is deleted again later. If others use the range, it is
// refused in the end.
func TestRelease_WaitsForTheRangeOfACascade(t *testing.T) {
	n := newNetwork(t, 1)
	n.blocks["foreign"] = netip.MustParsePrefix("10.2.0.0/32")
	n.onRelease = func(released int) {
		if released == 2 {
			time.AfterFunc(50*time.Millisecond, func() {
				n.mu.Lock()
				defer n.mu.Unlock()
				delete(n.blocks, "foreign")
			})
		}
	}
	must.Do(t, (&removal{Session: stage.New(t).Session, cascade: true, wait: time.Minute}).release(t.Context(), n, "default", []string{"net"}))
	n = newNetwork(t, 1)
	n.blocks["foreign"] = netip.MustParsePrefix("10.2.0.0/32")
	err := (&removal{Session: stage.New(t).Session, cascade: true, wait: time.Millisecond}).release(t.Context(), n, "default", []string{"net"})
	if want := "2 of 3 claims released; run it again (left: default/net)"; err == nil || !strings.Contains(err.Error(), want) || exit.CodeOf(err) != exit.Conflict {
		t.Errorf("release = %v, with code %d; want %q and %d", err, exit.CodeOf(err), want, exit.Conflict)
	}
}
