package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"

	goyaml "go.yaml.in/yaml/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// ReadYAML reads a plan from manifests of IPPools and IPClaims, one after another or in a List, as
// YAML or JSON. It takes spec, name, namespace, labels and description of each, and no status. The line of an
// object is that of its document. It reads the whole file, and returns what is wrong beside
// the plan.
func ReadYAML(data []byte, options Options) (*Plan, []Problem) {
	b := &builder{plan: &Plan{}, problems: &problems{}, namespace: options.Namespace}
	if b.problems.notUTF8(data) {
		return b.plan, b.problems.sorted()
	}
	for _, d := range documents(bytes.TrimPrefix(data, []byte("\ufeff"))) {
		b.document(d)
	}
	b.plan.incomplete = len(*b.problems) > 0 // an object that cannot be read may be a pool
	b.source()
	return b.plan, b.problems.sorted()
}

// document is one of several in a file.
type document struct {
	line int
	text []byte
}

// documents splits a file at its lines "---" and "...". What follows a "---" in its line is of the
// next document.
func documents(data []byte) []document {
	var found []document
	at := document{line: 1}
	line := 0
	for text := range bytes.Lines(data) {
		line++
		if rest, ok := divided(text); ok {
			found = append(found, at)
			at = document{line: line, text: rest}
			if len(bytes.TrimSpace(rest)) == 0 {
				at.line++
			}
			continue
		}
		at.text = append(at.text, text...)
	}
	return slices.DeleteFunc(append(found, at), func(d document) bool { return len(bytes.TrimSpace(d.text)) == 0 })
}

// divided reports whether a line begins or ends a document, and returns what follows the marker.
func divided(line []byte) (rest []byte, ok bool) {
	for _, marker := range []string{"---", "..."} {
		rest, ok := bytes.CutPrefix(line, []byte(marker))
		if ok && (len(rest) == 0 || bytes.ContainsAny(rest[:1], " \t\r\n")) {
			return slices.Clone(bytes.TrimLeft(rest, " \t")), true
		}
	}
	return nil, false
}

// single reports whether a text has one document. The reader of YAML leaves out what follows the
// first one.
func single(text []byte) bool {
	decoder := goyaml.NewDecoder(bytes.NewReader(text))
	_ = decoder.Decode(&struct{}{}) // was read without an error before
	return errors.Is(decoder.Decode(&struct{}{}), io.EOF)
}

// document reads an object, or a list of them.
func (b *builder) document(d document) {
	var list struct {
		metav1.TypeMeta `json:",inline"`
		Items           []json.RawMessage `json:"items"`
	}
	text, err := yaml.YAMLToJSONStrict(d.text)
	if err != nil {
		b.problems.add(d.line, "this is no YAML: %v", err)
		return
	}
	if string(text) == "null" {
		return // nothing but comments
	}
	if !single(d.text) {
		b.problems.add(d.line, "there is more than one object: write a line --- between them")
		return
	}
	if err := json.Unmarshal(text, &list); err != nil {
		b.problems.add(d.line, "this is no object: write IPPools and IPClaims, as kubectl ipam export prints them")
		return
	}
	if list.Items == nil {
		b.object(d.line, list.TypeMeta, text)
		return
	}
	for _, item := range list.Items {
		var kind metav1.TypeMeta
		if err := json.Unmarshal(item, &kind); err != nil {
			b.problems.add(d.line, "an item of the list is no object")
			continue
		}
		b.object(d.line, kind, item)
	}
}

func (b *builder) object(line int, kind metav1.TypeMeta, text []byte) {
	switch {
	case kind == typeOf("IPPool"):
		pool := &ipamv1alpha1.IPPool{}
		if b.read(line, text, pool) {
			b.manifestPool(line, pool)
		}
	case kind == typeOf("IPClaim"):
		claim := &ipamv1alpha1.IPClaim{}
		if b.read(line, text, claim) {
			b.manifestClaim(line, claim)
		}
	default:
		b.problems.add(line, "there is a %s of %s: write IPPools and IPClaims of %s alone", orNothing(kind.Kind), orNothing(kind.APIVersion), ipamv1alpha1.GroupVersion)
	}
}

// read refuses fields that the kind does not have: a typo would change what is imported.
func (b *builder) read(line int, text []byte, into runtime.Object) bool {
	if err := yaml.UnmarshalStrict(text, into); err != nil {
		b.problems.add(line, "%v", err)
		return false
	}
	return true
}

func (b *builder) manifestPool(line int, read *ipamv1alpha1.IPPool) {
	if read.Spec.ParentPoolRef != nil {
		b.problems.add(line, "pool %s is carved from pool %s, and its block cannot be asked for: leave it out, and create it by kubectl ipam pool create", read.Name, read.Spec.ParentPoolRef.Name)
		return
	}
	block, err := ParseBlock(string(read.Spec.CIDR))
	if err != nil {
		b.problems.add(line, "pool %s: spec.cidr: %v", read.Name, err)
		return
	}
	pool := exportedPool(read)
	pool.Spec.CIDR = ipamv1alpha1.CIDR(block.String())
	b.plan.Pools = append(b.plan.Pools, Pool{Line: line, IPPool: pool})
}

// familyIn leaves out a family that the block says as well.
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
		b.problems.add(line, "claim %s/%s asks for no exact block: write the block as spec.address, or create it by kubectl apply", claim.Namespace, claim.Name)
		return
	}
	block, err := ParseBlock(claim.Spec.Address)
	if err != nil {
		b.problems.add(line, "claim %s/%s: spec.address: %v", claim.Namespace, claim.Name, err)
		return
	}
	claim.Spec.Address = addressOf(block)
	b.plan.Claims = append(b.plan.Claims, Claim{line, claim})
}

func orNothing(word string) string {
	if word == "" {
		return "nothing"
	}
	return fmt.Sprintf("%q", word)
}
