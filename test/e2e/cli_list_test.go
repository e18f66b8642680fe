package e2e

import (
	"strings"
	"testing"

	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A watched list shows each change until it is interrupted, under one heading.
func TestCLI_Watch(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class()
	s.pool(s.cidr)
	s.holds("first", gen.Length(28))
	c := cli{s.tenant.CLI(t), t}

	table := c.Watch(t, "claim", "list", "--watch")
	objects := c.Watch(t, "claim", "list", "--watch", "-o", "name")
	heading := table.Shows(t, "NAME", "ALLOCATED", "PHASE")
	first := table.Shows(t, "first", s.name, "Bound")
	if at := strings.Index(heading, "PHASE"); strings.Index(first, "Bound") != at {
		t.Errorf("the columns are not aligned:\n%s\n%s", heading, first)
	}
	second := s.holds("second", gen.Length(28))
	table.Shows(t, "second", second.Status.AllocatedCIDR, "Bound")
	framework.Delete(t, s.tenant, second)
	table.Shows(t, "second", "Deleted")
	objects.Shows(t, "ipclaim.ipam.miloapis.com/second")
	if code := table.Interrupt(t); code != 0 {
		t.Errorf("interrupted, the table ends with %d; want 0", code)
	}
	if code := objects.Interrupt(t); code != 0 {
		t.Errorf("interrupted, the objects end with %d; want 0", code)
	}
}

// The columns of a list are those that the caller names.
func TestCLI_CustomColumns(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class()
	s.pool(s.cidr)
	claim := s.holds("web", gen.Length(28))
	c := cli{s.tenant.CLI(t), t}
	got := c.ok("claim", "list", "-o", "custom-columns=WHO:.metadata.name,BLOCK:.status.allocatedCIDR,OWNER:.spec.ownerRef.name")
	if fields, want := strings.Fields(got), []string{"WHO", "BLOCK", "OWNER", "web", claim.Status.AllocatedCIDR, "<none>"}; strings.Join(fields, " ") != strings.Join(want, " ") {
		t.Errorf("the list is %q; want %q", fields, want)
	}
}

// A class is created, can be used, and is found there by the same request.
func TestCLI_ClassCreate(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	admin := cli{framework.AdminCLI(t, s.platform.Path), t}
	create := []string{"class", "create", s.name, "--family", "ipv4", "--min-length", "24", "--max-length", "28", "--length", "28",
		"--max-per-consumer", "64", "--unmet-policy", "refuse"}
	for range 2 {
		if got := admin.ok(create...); got != s.name+"\n" {
			t.Errorf("it printed %q; want the name of the class", got)
		}
	}
	admin.run(append(create, "--strategy", "BestFit")...).ends(5).says("asks for something else", "kubectl edit ipclass "+s.name)
	s.pool(s.cidr)
	c := cli{s.tenant.CLI(t), t}
	if got := c.ok("claim", "create", "web", "--class", s.name, "--quiet"); !strings.HasSuffix(got, "/28\n") {
		t.Errorf("a claim by the class got %q; want a /28", got)
	}
	c.run("class", "create", "mine", "--family", "IPv4").ends(3).says("hint:")
}
