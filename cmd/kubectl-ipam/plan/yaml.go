package plan

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubeyaml "sigs.k8s.io/yaml"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// ReadYAML reads a plan from manifests of IPPools and IPClaims, in several documents or in a List, as YAML or JSON. It
// reads the spec, name, namespace, labels and description of each object, and no status. It reads the whole file, and
// returns its problems as well.
func ReadYAML(data []byte, options Options) (*Plan, []Problem) {
	b := &builder{plan: &Plan{}, problems: &problems{}, namespace: options.Namespace}
	if b.problems.notUTF8(data) {
		return b.plan, b.problems.sorted()
	}
	documents := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var document yaml.Node
		err := documents.Decode(&document)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil { // the decoder cannot go on
			line := 1
			_, _ = fmt.Sscanf(err.Error(), "yaml: line %d", &line)
			b.problems.add(line, "this is no YAML: %v", err)
			break
		}
		b.document(document.Content[0])
	}
	b.plan.incomplete = len(*b.problems) > 0 // an object that could not be read may be a pool
	b.source()
	return b.plan, b.problems.sorted()
}

// manifest is the beginning of an object, or of a list of objects.
type manifest struct {
	APIVersion string      `yaml:"apiVersion"`
	Kind       string      `yaml:"kind"`
	Items      []yaml.Node `yaml:"items"`
}

// document reads an object, or a list of objects.
func (b *builder) document(node *yaml.Node) {
	var m manifest
	switch err := node.Decode(&m); {
	case node.Tag == "!!null": // nothing but comments
	case err != nil:
		b.problems.add(node.Line, "this is no object: write IPPools and IPClaims, as kubectl ipam export prints them: %v",
			err)
	case m.Items == nil:
		b.object(node, m)
	}
	for i := range m.Items {
		var item manifest
		if err := m.Items[i].Decode(&item); err != nil {
			b.problems.add(m.Items[i].Line, "an item of the list is no object")
			continue
		}
		b.object(&m.Items[i], item)
	}
}

func (b *builder) object(node *yaml.Node, m manifest) {
	switch (metav1.TypeMeta{APIVersion: m.APIVersion, Kind: m.Kind}) {
	case typeOf("IPPool"):
		pool := &ipamv1alpha1.IPPool{}
		if b.read(node, pool) {
			b.manifestPool(node.Line, pool)
		}
	case typeOf("IPClaim"):
		claim := &ipamv1alpha1.IPClaim{}
		if b.read(node, claim) {
			b.manifestClaim(node.Line, claim)
		}
	default:
		b.problems.add(node.Line, "there is a %s of %s: write IPPools and IPClaims of %s alone",
			orNothing(m.Kind), orNothing(m.APIVersion), ipamv1alpha1.GroupVersion)
	}
}

// read reads an object. It refuses fields that the kind does not have, because a typo would change what is imported.
func (b *builder) read(node *yaml.Node, into runtime.Object) bool {
	text, err := yaml.Marshal(node) // as the file has it: kubectl reads some words differently
	if err == nil {
		err = kubeyaml.UnmarshalStrict(text, into)
	}
	if err != nil {
		b.problems.add(node.Line, "%v", err)
	}
	return err == nil
}

func (b *builder) manifestPool(line int, read *ipamv1alpha1.IPPool) {
	field := "spec.cidr"
	if read.Spec.Carved() {
		field = "spec.address"
		if read.Spec.Address == "" {
			b.problems.add(line,
				"pool %s asks for no exact block: write the block as spec.address, or create it by kubectl apply", read.Name)
			return
		}
	}
	block, err := ParseBlock(string(blockOf(read.Spec)))
	if err != nil {
		b.problems.add(line, "pool %s: %s: %v", read.Name, field, err)
		return
	}
	for _, cidr := range read.Spec.ExcludedCIDRs {
		excluded, err := ParseBlock(string(cidr))
		if err != nil {
			b.problems.add(line, "pool %s: spec.excludedCIDRs: %v", read.Name, err)
		} else if !contains(block, excluded) {
			b.problems.add(line, excludesOthers, read.Name, block, cidr)
		}
	}
	pool := exportedPool(read)
	setBlock(&pool.Spec, block)
	b.plan.Pools = append(b.plan.Pools, Pool{line, pool, block})
}

// familyIn returns a family; empty if the block has the same one.
func familyIn(family ipamv1alpha1.IPFamily, block netip.Prefix) ipamv1alpha1.IPFamily {
	if block.Addr().Is4() == (family == ipamv1alpha1.IPv4) {
		return ""
	}
	return family
}

func (b *builder) manifestClaim(line int, read *ipamv1alpha1.IPClaim) {
	claim := &ipamv1alpha1.IPClaim{TypeMeta: typeOf("IPClaim"), Spec: read.Spec, ObjectMeta: metav1.ObjectMeta{
		Name: read.Name, Namespace: read.Namespace, Labels: read.Labels, Annotations: kept(read),
	}}
	if claim.Namespace == "" {
		claim.Namespace = b.namespace
	}
	if claim.Spec.Address == "" {
		b.problems.add(line, "claim %s/%s asks for no exact block: "+
			"write the block as spec.address, or create it by kubectl apply", claim.Namespace, claim.Name)
		return
	}
	block, err := ParseBlock(claim.Spec.Address)
	if err != nil {
		b.problems.add(line, "claim %s/%s: spec.address: %v", claim.Namespace, claim.Name, err)
		return
	}
	claim.Spec.Address = addressOf(block)
	b.plan.Claims = append(b.plan.Claims, Claim{line, claim, block})
}

func orNothing(word string) string {
	if word == "" {
		return "nothing"
	}
	return fmt.Sprintf("%q", word)
}
