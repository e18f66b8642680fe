//go:build long

package e2e

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// kcp routes a request before it reads the body, and asks webhooks and policies by the bindings of a later moment. So a
// CREATE whose body is held back until the workspace has unbound is stored as it was sent: a claim with another's
// block, and a pool that says that it is a slice. Both give nothing: the claim loses the block and gets one of its own. A claim
// that the controller could not read, and whose block it could not take back, is not stored.
func TestLong_HeldBack(t *testing.T) {
	t.Parallel()
	platform, victim, pool := alone(t)
	honest := claimAnew(t, victim, pool.Name)
	sliced := gen.Pool(framework.Name(t)+"-sliced", gen.CIDR(platform.CIDR(t)), gen.Visible(ipamv1alpha1.VisibilityPlatform))
	sliced.Spec.Slices = &ipamv1alpha1.PoolSlices{PrefixLength: 28, MaxSlices: 1}
	framework.Create(t, platform, sliced)
	framework.WaitAllocated(t, victim, &ipamv1alpha1.IPPool{ObjectMeta: metav1.ObjectMeta{Name: sliced.Name}}, ipamv1alpha1.ReasonAllocationSucceeded)

	thief := platform.Tenant(t)
	owner := thief.OwnerConfig(t)
	claim := gen.Claim("forged", gen.OfClass(pool.Name), gen.Length(28))
	claim.UID, claim.Status = "", honest.Status
	slice := gen.Pool(sliced.Name, gen.ChildOf(sliced.Name, 28))
	slice.UID, slice.Labels = "", map[string]string{ipamv1alpha1.LabelSlice: string(sliced.UID)}
	slice.Spec.ParentPoolRef.ProjectRef = &ipamv1alpha1.ProjectRef{Name: platform.Path}
	odd := claim.DeepCopy()
	odd.Name = "odd"
	heldClaim := holdBack(t, owner, "namespaces/default/ipclaims", "IPClaim", claim)
	heldOdd := holdBack(t, owner, "namespaces/default/ipclaims", "IPClaim", odd)
	heldOdd.text = regexp.MustCompile(`(Time":"[0-9-]+)T([0-9:]+)Z`).ReplaceAll(heldOdd.text, []byte("${1}t${2}z"))
	heldPool := holdBack(t, owner, "ippools", "IPPool", slice)
	unbind(t, owner, thief.Path)
	if err := heldOdd.send(); err == nil || !strings.Contains(err.Error(), "lastTransitionTime") {
		t.Errorf("CREATE of a claim with a time that Go does not read = %v, want it to be refused for lastTransitionTime", err)
	}
	heldClaim.end(t)
	heldPool.end(t)

	thief.Bind(t)
	framework.Within(t, 4*time.Minute, "the forged claim to be bound to a block of its own", func(ctx context.Context) error {
		if err := thief.Get(ctx, client.ObjectKeyFromObject(claim), claim); err != nil {
			return err
		}
		if shown := claim.Status.AllocatedCIDR; shown == "" || shown == honest.Status.AllocatedCIDR {
			return fmt.Errorf("it shows %q, and %s is that of another tenant", shown, honest.Status.AllocatedCIDR)
		}
		return nil
	})
	framework.WaitBound(t, thief, claim)
	framework.WaitBound(t, victim, honest)
	waitHeld(t, platform, pool, size(blockOf(t, honest), blockOf(t, claim)))
	if n := metric(platform.Metrics(t), "ipam_claim_corrections_total "); n != "1" {
		t.Errorf("%q claims were corrected, want 1", n)
	}

	framework.WaitAllocated(t, thief, slice, ipamv1alpha1.ReasonPoolNotFound)
	if slice.Status.AllocatedCIDR != "" {
		t.Errorf("a pool that says that it is a slice has %s; want nothing, as the only slice is given", slice.Status.AllocatedCIDR)
	}
}

// The workspace goes instead of binding once more. kcp then never stops to show the orphans in its wildcard lists, and nobody
// can delete them. They are in nobody's way: after a loss of the ledger, too, no address is taken for them, and
// no pool stays frozen for them.
func TestLong_HeldBackOfADeletedWorkspace(t *testing.T) {
	t.Parallel()
	l := newLossy(t)
	stays := l.holds("stays", gen.Length(28))
	l.published(stays)
	thief := l.platform.Tenant(t)
	owner := thief.OwnerConfig(t)
	last := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, blockOf(t, stays).Addr().As4()[1], 255, 240}), 28)
	claim := gen.Claim("forged", gen.OfClass(l.name), gen.Length(28))
	claim.UID, claim.Status = "", stays.Status
	claim.Status.AllocatedCIDR, claim.Status.Address = last.String(), ""
	pool := gen.Pool("forged", gen.CIDR("10.0.0.0/24"))
	pool.UID = ""
	pool.Status = ipamv1alpha1.IPPoolStatus{Phase: ipamv1alpha1.PoolReady, AllocatedCIDR: "10.0.0.0/24", Ledger: &ipamv1alpha1.PoolLedger{ID: "another", Changes: 7}}
	heldClaim := holdBack(t, owner, "namespaces/default/ipclaims", "IPClaim", claim)
	heldPool := holdBack(t, owner, "ippools", "IPPool", pool)
	unbind(t, owner, thief.Path)
	heldClaim.end(t)
	heldPool.end(t)
	thief.DeleteWorkspace(t)

	everywhere := asClient(t, at(l.platform, endpointOf(t, l.platform)+"/clusters/*"))
	claims, pools := &ipamv1alpha1.IPClaimList{}, &ipamv1alpha1.IPPoolList{}
	if err := errors.Join(everywhere.List(t.Context(), claims), everywhere.List(t.Context(), pools)); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(claims.Items, func(c ipamv1alpha1.IPClaim) bool { return c.Status.AllocatedCIDR == last.String() }) {
		t.Error("kcp does not show the claim of the deleted workspace; want the orphan that this test is about")
	}
	if !slices.ContainsFunc(pools.Items, func(p ipamv1alpha1.IPPool) bool { return p.Name == pool.Name }) {
		t.Error("kcp does not show the pool of the deleted workspace; want the orphan that this test is about")
	}

	l.wipe()
	l.platform.StartController(t)
	late := l.holds("late", gen.Length(28))
	l.kept(stays)
	l.published(stays, late)
	if n := metric(l.platform.Metrics(t), "ipam_adopt_unplaced_records "); n != "1" {
		t.Errorf("%q records were not adopted, want 1: the orphan's", n)
	}
}

// unbind deletes the binding, and waits until kcp serves the API no more: from then on it asks no webhook and no policy
// of the export.
func unbind(t *testing.T, owner *rest.Config, path string) {
	t.Helper()
	framework.Eventually(t, "the owner to unbind", func(ctx context.Context) error { return framework.Unbind(ctx, owner, path) })
	c := asClient(t, owner)
	framework.Eventually(t, "kcp to serve the API no more", func(ctx context.Context) error {
		err := c.List(ctx, &ipamv1alpha1.IPClaimList{})
		if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
			return nil
		}
		return fmt.Errorf("a list of claims ends with %w", cmp.Or(err, errors.New("no error")))
	})
}

// heldBack is a CREATE that the server has routed, and whose body it waits for.
type heldBack struct {
	body   *io.PipeWriter
	text   []byte
	answer chan error
}

// holdBack begins a CREATE, and returns once the server wants to read its body, and so has decided who serves it.
func holdBack(t *testing.T, access *rest.Config, resource, kind string, object client.Object) *heldBack {
	t.Helper()
	object.GetObjectKind().SetGroupVersionKind(ipamv1alpha1.GroupVersion.WithKind(kind))
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	read, write := io.Pipe()
	h := &heldBack{body: write, text: text, answer: make(chan error, 1)}
	wanted := make(chan struct{})
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got100Continue: func() { close(wanted) }})
	url := strings.TrimSuffix(access.Host, "/") + "/apis/" + ipamv1alpha1.GroupVersion.String() + "/" + resource
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, read)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Expect", "100-continue")
	secured, err := rest.TLSConfigFor(access)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: secured, ExpectContinueTimeout: time.Minute, TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{}}
	t.Cleanup(transport.CloseIdleConnections)
	trip, err := rest.HTTPWrappersForConfig(access, transport)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		response, err := trip.RoundTrip(request)
		if err == nil {
			defer func() { _ = response.Body.Close() }()
			says, _ := io.ReadAll(response.Body)
			if response.StatusCode != http.StatusCreated {
				err = fmt.Errorf("the server answers %s: %s", response.Status, says)
			}
		}
		h.answer <- err
	}()
	select {
	case <-wanted:
	case err := <-h.answer:
		t.Fatalf("the CREATE ended before its body was read: %v", err)
	case <-t.Context().Done():
		t.Fatal(errors.New("the server never wanted the body"))
	}
	return h
}

// send sends the body, and returns nil if the object is stored.
func (h *heldBack) send() error {
	if _, err := h.body.Write(h.text); err != nil {
		return err
	}
	return cmp.Or(h.body.Close(), <-h.answer)
}

// end sends the body, and wants the object to be stored.
func (h *heldBack) end(t *testing.T) {
	t.Helper()
	if err := h.send(); err != nil {
		t.Fatal(err)
	}
}
