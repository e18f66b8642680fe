package sim

import (
	"fmt"
	"strings"
	"time"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/gen"
)

func (p *player) createPool(words []string) {
	ctx, cancel := patiently()
	defer cancel()
	o, err := p.user.Create(ctx, "ippools", gen.Pool(words[0], gen.CIDR(ipamv1alpha1.CIDR(words[1]))))
	p.said("CREATE pool "+strings.Join(words, " "), o, err)
}

func (p *player) deletePool(words []string) {
	ctx, cancel := patiently()
	defer cancel()
	p.said("DELETE pool "+words[0], nil, p.user.Delete(ctx, "ippools", "", words[0]))
}

func (p *player) deleteNamespace(words []string) {
	p.note("%-4s DELETE namespace %s", p.actor, words[0])
	defer p.oracles.empties(letterOf(p.user.Cluster) + "/" + words[0] + "/")()
	p.world.DeleteNamespace(p.user.Cluster, words[0], p.most(50*time.Millisecond))
	p.note("%-4s namespace %s is gone, and there again", p.actor, words[0])
}

func (p *player) serve(words []string) {
	p.oracles.serving()
	err := p.user.Patch("ippools", "", words[0], fmt.Sprintf(`{"spec":{"classNames":[%q]}}`, words[1]))
	p.said(fmt.Sprintf("PATCH pool %s serves %s", words[0], words[1]), nil, err)
}

func (p *player) exclude(words []string) {
	list := "[]"
	if words[1] != "-" {
		list = fmt.Sprintf("[%q]", words[1])
	}
	err := p.user.Patch("ippools", "", words[0], fmt.Sprintf(`{"spec":{"excludedCIDRs":%s}}`, list))
	p.said(fmt.Sprintf("PATCH pool %s excludes %s", words[0], list), nil, err)
}

// showPath changes the path that the binding shows, which kcp takes from an annotation that the tenant may write.
func (p *player) showPath(words []string) {
	err := p.user.Patch("apibindings", "", "ipam", fmt.Sprintf(`{"metadata":{"annotations":{"kcp.io/path":%q}}}`, words[0]))
	p.said("shows the path "+words[0], nil, err)
}

// forge copies the status of another tenant's claim into a claim of this tenant. kcp checks no status for a moment while a
// workspace unbinds.
func (p *player) forge(words []string) {
	namespace, name := splitName(words[0])
	victim := p.named(words[1])
	if victim == nil {
		return
	}
	p.oracles.forging(p.user.Cluster, namespace, name)
	done := p.world.Forge("ipclaims", p.user.Cluster, namespace, name, func(o map[string]any) { o["status"] = victim.Object["status"] })
	p.note("%-4s forges the status of %s: %v", p.actor, words[0], done)
}
