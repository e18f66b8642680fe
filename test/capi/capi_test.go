// Package capi shows that the machines of Cluster API get their addresses, on a real Kubernetes with the kinds of
// Cluster API. The pools are in that cluster, or in a workspace of a real kcp. The controllers of Cluster API do not
// run: the tests act for them.
package capi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	capiv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/workspaces"
)

// The contract of an IPAM provider holds. The tests share one Kubernetes and its controller, which
// starts before Cluster API is installed.
func TestClusterAPI(t *testing.T) {
	t.Parallel()
	cluster := framework.NewStandalone(t, "--capi", "--sweep-interval=500ms", "--orphan-min-age=1s")
	must.Do(t, workspaces.BootstrapClusterAPI(t.Context(), cluster.AdminConfig(t), func(string) {}))
	cluster.StartController(t)
	s := newScene(t, cluster)
	s.install(t)
	for _, tt := range []struct {
		name string
		test func(*testing.T, *scene)
	}{
		{"Example", example},
		{"Bind", bind},
		{"Class", class},
		{"Parallel", parallel},
		{"Exhausted", exhausted},
		{"MissingPool", missingPool},
		{"MissingCluster", missingCluster},
		{"Paused", paused},
		{"PausedWhileDeleted", pausedWhileDeleted},
		{"PausedByAnnotation", pausedByAnnotation},
		{"PoolPaused", poolPaused},
		{"Protected", protected},
		{"MovedHere", movedHere},
		{"MovedAway", movedAway},
		{"Others", others},
		{"Killed", killed},
		{"Check", checked},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.test(t, s) })
	}
	cluster.WaitVerified(t)
}

// The example in docs/cluster-api.md works.
func example(t *testing.T, s *scene) {
	must.Do(t, workspaces.Apply(t.Context(), s.admin, shown(t)))
	machine := claim("worker-0", "IPPool", "machines")
	got := s.address(t, machine).Spec
	if text := fmt.Sprintf("%s/%d by %s", got.Address, *got.Prefix, got.Gateway); text != "198.18.4.2/24 by 198.18.4.1" {
		t.Errorf("the example gets %s; docs/cluster-api.md shows another", text)
	}
	s.release(t, machine)
}

// A claim gets an IPAddress as the contract demands, and releases it. A pool in a workspace owns nothing in another
// cluster.
func bind(t *testing.T, s *scene) {
	start, gateway, cidr := s.network(t, 28)
	pool := gen.Pool("bind", gen.CIDR(cidr), gen.Gateway(gateway, 24))
	s.offer(t, pool)
	framework.Create(t, s, workload("bind", false))
	machine := claimOf("bind", "machine", "bind")
	framework.Create(t, s, machine)
	address := s.address(t, machine)

	want := capiv1.IPAddressSpec{
		ClaimRef: capiv1.IPAddressClaimReference{Name: "machine"}, PoolRef: machine.Spec.PoolRef,
		Address: start + "2", Prefix: new(int32(24)), Gateway: gateway,
	}
	if diff := cmp.Diff(want, address.Spec); diff != "" || address.Name != machine.Name {
		t.Errorf("IPAddress %s (-want +got):\n%s", address.Name, diff)
	}
	owners := []metav1.OwnerReference{
		{APIVersion: capiv1.GroupVersion.String(), Kind: "IPAddressClaim", Name: "machine", UID: machine.UID, Controller: new(true), BlockOwnerDeletion: new(true)},
	}
	if !s.beside {
		owners = append(owners, metav1.OwnerReference{
			APIVersion: ipamv1alpha1.GroupVersion.String(), Kind: "IPPool", Name: "bind", UID: pool.UID, Controller: new(false), BlockOwnerDeletion: new(true),
		})
	}
	if diff := cmp.Diff(owners, address.OwnerReferences); diff != "" {
		t.Errorf("the owners of the IPAddress (-want +got):\n%s", diff)
	}
	if got := address.Labels[clusterv1.ClusterNameLabel]; got != "bind" || len(address.Finalizers) != 1 {
		t.Errorf("the IPAddress is of Cluster %q and has the finalizers %q; want bind, and one", got, address.Finalizers)
	}
	found, ok := s.ipClaim(t, machine)
	if !ok || found.Status.Address != address.Spec.Address || found.Spec.OwnerRef == nil || found.Spec.OwnerRef.Name != "machine" {
		t.Errorf("the IPClaim is %+v; want one of machine that holds %s", found, address.Spec.Address)
	}
	if got := found.Labels[clusterv1.ClusterNameLabel]; s.beside && got != "bind" {
		t.Errorf("the IPClaim has the label of Cluster %q; want bind", got)
	}
	s.release(t, machine)
	framework.WaitWhile(t, s.pools, pool, "want the gateway and the network address allocated alone", func(pool *ipamv1alpha1.IPPool) bool {
		return pool.Status.Capacity.Allocated != "2"
	})
}

// A claim by class gets an address of a pool of that class, in either family.
func class(t *testing.T, s *scene) {
	framework.Create(t, s, gen.Class("machines6", gen.Family(ipamv1alpha1.IPv6), gen.DefaultLength(64)), gen.Pool("machines6", gen.CIDR("2001:db8::/64"), gen.Backs("machines6"), gen.Gateway("2001:db8::1", 0)))
	machine := claim("class", "IPClass", "machines6")
	framework.Create(t, s, machine)
	got := s.address(t, machine)
	if !strings.HasPrefix(got.Spec.Address, "2001:db8::") || *got.Spec.Prefix != 64 || got.Spec.Gateway != "2001:db8::1" || got.Spec.PoolRef.Kind != "IPClass" {
		t.Errorf("the IPAddress is %+v; want one of 2001:db8::/64, from the class", got.Spec)
	}
	s.release(t, machine)
}

// Claims that are made at the same time get an address each.
func parallel(t *testing.T, s *scene) {
	_, gateway, cidr := s.network(t, 24)
	s.offer(t, gen.Pool("parallel", gen.CIDR(cidr), gen.Gateway(gateway, 0)))
	machines := make([]*capiv1.IPAddressClaim, 12)
	var creating sync.WaitGroup
	for i := range machines {
		machines[i] = claim(fmt.Sprintf("parallel-%d", i), "IPPool", "parallel")
		creating.Go(func() {
			if err := s.Create(t.Context(), machines[i]); err != nil {
				t.Errorf("Create: %v", err)
			}
		})
	}
	creating.Wait()
	of := map[string]string{}
	for _, machine := range machines {
		address := s.address(t, machine).Spec.Address
		if other, taken := of[address]; taken {
			t.Errorf("%s and %s have %s", machine.Name, other, address)
		}
		of[address] = machine.Name
	}
	s.release(t, machines...)
}

// A claim of a full pool waits, says so, and gets the address that is released.
func exhausted(t *testing.T, s *scene) {
	s.offer(t, s.pool(t, "full"))
	first, second := claim("first", "IPPool", "full"), claim("second", "IPPool", "full")
	framework.Create(t, s, first)
	held := s.address(t, first).Spec.Address
	framework.Create(t, s, second)
	s.refused(t, second, capiv1.IPAddressClaimReadyPoolExhaustedReason)
	s.release(t, first)
	if got := s.address(t, second).Spec.Address; got != held {
		t.Errorf("the claim that waited has %s; want %s", got, held)
	}
	s.release(t, second)
}

// A claim of a missing pool waits for the pool. It can be deleted meanwhile.
func missingPool(t *testing.T, s *scene) {
	waits, goes := claim("waits", "IPPool", "missing"), claim("goes", "IPClass", "missing")
	framework.Create(t, s, waits, goes)
	s.refused(t, waits, capiv1.IPAddressClaimReadyPoolNotReadyReason)
	s.refused(t, goes, capiv1.IPAddressClaimReadyPoolNotReadyReason)
	s.release(t, goes)
	s.offer(t, s.pool(t, "missing"))
	s.address(t, waits)
	s.release(t, waits)
}

// A claim for a pool of another provider is left alone.
func others(t *testing.T, s *scene) {
	s.offer(t, s.pool(t, "others"))
	other := claim("other", "InClusterIPPool", "others")
	other.Spec.PoolRef.APIGroup = capiv1.GroupVersion.Group
	framework.Create(t, s, other)
	s.passed(t, "after-other", "others")
	s.untouched(t, other)
	framework.Delete(t, s, other)
	framework.WaitGone(t, s, other)
}

// kubectl ipam check says which machines have no address, and why. If the pools are in a workspace, it does not
// report that anything else is missing in the management cluster.
func checked(t *testing.T, s *scene) {
	machine := claim("checked", "IPPool", "checked")
	framework.Create(t, s, machine)
	s.refused(t, machine, capiv1.IPAddressClaimReadyPoolNotReadyReason)
	s.checks(t, "warning", "1 PoolNotReady, the first is default/checked: IPPool checked does not exist")
	s.offer(t, s.pool(t, "checked"))
	s.address(t, machine)
	s.checks(t, "ok", "IPAddressClaims for IPPools and IPClasses have their addresses")
	s.release(t, machine)
}

// checks compares the report of kubectl ipam check on machines.
func (s *scene) checks(t *testing.T, result, found string) {
	t.Helper()
	var cli framework.CLI
	if s.beside {
		cli = s.management.CLI(t)
	} else {
		cli = s.platform.CLI(t, "cluster-admin")
	}
	ran := cli.Run(t, "check", "-o", "json")
	var said struct {
		Checks []struct{ Check, Result, Found string }
	}
	if err := json.Unmarshal([]byte(ran.Out), &said); err != nil || ran.Code != 0 {
		t.Fatalf("kubectl ipam check ends with %d, %v:\n%s%s", ran.Code, err, ran.Out, ran.Err)
	}
	last := said.Checks[len(said.Checks)-1]
	if last.Check != "machines" || last.Result != result || !strings.Contains(last.Found, found) {
		t.Errorf("the last check is %+v; want one of machines, %s: %s", last, result, found)
	}
}

// definitions are the files of the kinds of Cluster API that the controller reads.
var definitions = []string{
	"cluster.x-k8s.io_clusters.yaml", "ipam.cluster.x-k8s.io_ipaddressclaims.yaml", "ipam.cluster.x-k8s.io_ipaddresses.yaml",
}

// install installs the definitions of Cluster API, in the version of the Go types, and waits until they are served.
func (s *scene) install(t *testing.T) {
	t.Helper()
	version := strings.TrimSpace(output(t, ".", "go", "list", "-m", "-f", "{{.Version}}", "sigs.k8s.io/cluster-api/api"))
	var module struct{ Dir string }
	// The command runs outside of this module, so that go.sum does not change.
	answer := output(t, t.TempDir(), "go", "mod", "download", "-json", "sigs.k8s.io/cluster-api@"+version)
	must.Do(t, json.Unmarshal([]byte(answer), &module))
	folder := fstest.MapFS{}
	for _, name := range definitions {
		data := must.Get(fs.ReadFile(os.DirFS(filepath.Join(module.Dir, "core", "config", "crd", "bases")), name))(t)
		folder[name] = &fstest.MapFile{Data: data}
	}
	must.Do(t, workspaces.Apply(t.Context(), s.admin, folder))
	framework.Eventually(t, "the kinds of Cluster API", func(ctx context.Context) error {
		return errors.Join(s.List(ctx, &clusterv1.ClusterList{}), s.List(ctx, &capiv1.IPAddressClaimList{}), s.List(ctx, &capiv1.IPAddressList{}))
	})
}

// shown returns a folder with the example.
func shown(t *testing.T) fs.FS {
	t.Helper()
	data := must.Get(os.ReadFile("../../config/capi/example.yaml"))(t)
	return fstest.MapFS{"example.yaml": {Data: data}}
}

// output returns the output of a command.
func output(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), name, args...)
	command.Dir, command.Stderr = dir, os.Stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	return string(out)
}
