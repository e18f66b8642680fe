package e2e

import (
	"strings"
	"testing"

	"github.com/kcp-ipam/ipam/test/framework"
)

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
