package sim

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/gen"
)

// finalizer is the finalizer of another program.
const finalizer = "example.com/keep"

// options are the options of a claim that are a single word. All others are key=value: address, pool, length, or a
// role of its scope.
var options = map[string]gen.ClaimOption{
	"retain":    gen.Reclaim(ipamv1alpha1.ReclaimRetain),
	"refuse":    gen.Unmet(ipamv1alpha1.UnmetRefuse),
	"wait":      gen.Unmet(ipamv1alpha1.UnmetWait),
	"reuse":     gen.OnRetained(ipamv1alpha1.RetainedReuse),
	"range":     gen.ForRange(),
	"finalizer": gen.MetaOption(func(m *metav1.ObjectMeta) { m.Finalizers = []string{finalizer} }),
}

// splitName returns the namespace of a claim, which is default if the word has none, and its name.
func splitName(word string) (namespace, name string) {
	if namespace, name, ok := strings.Cut(word, "/"); ok {
		return namespace, name
	}
	return metav1.NamespaceDefault, word
}

// described returns the claim that the words of a create describe.
func described(words []string) (*ipamv1alpha1.IPClaim, error) {
	if len(words) < 2 {
		return nil, usage(words)
	}
	namespace, name := splitName(words[0])
	chosen := []gen.ClaimOption{gen.Namespace(namespace)}
	if words[1] != "-" {
		chosen = append(chosen, gen.OfClass(words[1]))
	}
	var within []string
	for _, word := range words[2:] {
		key, value, valued := strings.Cut(word, "=")
		switch {
		case !valued && options[key] != nil:
			chosen = append(chosen, options[key])
		case key == "address":
			chosen = append(chosen, gen.Address(value))
		case key == "pool":
			chosen = append(chosen, gen.FromPool(value))
		case key == "length":
			length, err := strconv.ParseInt(value, 10, 32)
			if err != nil {
				return nil, usage(words)
			}
			chosen = append(chosen, gen.Length(int32(length)))
		case valued:
			within = append(within, key, value)
		default:
			return nil, usage(words)
		}
	}
	if len(within) > 0 {
		chosen = append(chosen, gen.Within(within...))
	}
	return gen.Claim(name, chosen...), nil
}

// read returns a stored claim.
func read(o *unstructured.Unstructured) *ipamv1alpha1.IPClaim {
	c := &ipamv1alpha1.IPClaim{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, c); err != nil {
		panic(fmt.Errorf("read a claim: %w", err))
	}
	return c
}

// lengthOf returns the prefix length that a claim asks for. A claim that names none gets that of its class, which is
// /32 for all classes whose claims wait for room.
func lengthOf(claim *ipamv1alpha1.IPClaim) int32 { return cmp.Or(claim.Spec.PrefixLength, 32) }

func (p *player) create(words []string) {
	claim, err := described(words)
	if err != nil {
		panic(err)
	}
	ctx, cancel := patiently()
	defer cancel()
	asked := p.oracles.asked(p.user.Cluster, claim)
	o, err := p.user.Create(ctx, "ipclaims", claim)
	p.said("CREATE "+strings.Join(words, " "), o, err)
	p.oracles.answered(asked, o, err)
}

func (p *player) delete(words []string) {
	namespace, name := splitName(words[0])
	ctx, cancel := patiently()
	defer cancel()
	answered := p.oracles.deleting(p.user, namespace, name)
	err := p.user.Delete(ctx, "ipclaims", namespace, name)
	p.said("DELETE "+words[0], nil, err)
	answered(err)
}

// hammer deletes a claim again and again, as a tenant with a broken program or with bad intent would.
func (p *player) hammer(words []string) {
	times, err := strconv.Atoi(words[1])
	if err != nil {
		panic(usage(words))
	}
	var connections sync.WaitGroup
	for range 8 {
		connections.Go(func() {
			for range times {
				p.delete(words)
			}
		})
	}
	connections.Wait()
}

func (p *player) reclaim(words []string) {
	namespace, name := splitName(words[0])
	err := p.user.Patch("ipclaims", namespace, name, fmt.Sprintf(`{"spec":{"reclaimPolicy":%q}}`, words[1]))
	p.said("PATCH "+strings.Join(words, " "), nil, err)
}

func (p *player) hold(words []string) {
	namespace, name := splitName(words[0])
	err := p.user.Patch("ipclaims", namespace, name, fmt.Sprintf(`{"metadata":{"finalizers":[%q]}}`, finalizer))
	p.said("PATCH "+words[0]+" with a finalizer", nil, err)
}

func (p *player) letGo(words []string) {
	namespace, name := splitName(words[0])
	err := p.user.Patch("ipclaims", namespace, name, `{"metadata":{"finalizers":null}}`)
	p.said("PATCH "+words[0]+" without finalizers", nil, err)
}

// deleteRecord deletes the IPAllocation of a claim, as the network controller does after it has deleted the claim.
func (p *player) deleteRecord(words []string) {
	namespace, name := splitName(words[0])
	record := ipamv1alpha1.AllocationName(namespace, name)
	ctx, cancel := patiently()
	defer cancel()
	judge := p.oracles.deletingRecord(p.user.Cluster, namespace, name, record)
	err := p.user.Delete(ctx, "ipallocations", namespace, record)
	p.said("DELETE the record of "+words[0], nil, err)
	judge(err)
}
