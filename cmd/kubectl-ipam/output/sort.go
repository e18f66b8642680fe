package output

import (
	"cmp"
	"fmt"
	"math/big"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/jsonpath"

	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/facts"
)

// Sort sorts the items of a list by a field, which a JSONPath names as in kubectl get, with or without braces and the first dot:
// addresses and numbers by their value, other texts by their characters. Items without the
// field come first, and keep their order. Without a field, all do.
func Sort(list runtime.Object, path string) error {
	if path == "" {
		return nil
	}
	field := jsonpath.New("field").AllowMissingKeys(true)
	if err := field.Parse("{." + strings.TrimPrefix(strings.Trim(path, "{}"), ".") + "}"); err != nil {
		return exit.Usagef("--sort-by is %q; write a field such as .status.allocatedCIDR: %w", path, err)
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return err
	}
	keys := map[runtime.Object]sortKey{}
	for _, item := range items {
		values, err := valuesOf(item, field)
		if err != nil {
			return err
		}
		if len(values) > 0 {
			keys[item] = keyOf(values[0])
		}
	}
	slices.SortStableFunc(items, func(a, b runtime.Object) int { return keys[a].compare(keys[b]) })
	return meta.SetList(list, items)
}

// sortKey is a field to sort by. The zero value is that of an item without the field.
type sortKey struct {
	kind   int // 0: none, 1: number, 2: block, 3: text
	number *big.Float
	block  netip.Prefix
	text   string
}

func keyOf(text string) sortKey {
	const bits = 256 // more than any number of addresses has
	if number, ok := new(big.Float).SetPrec(bits).SetString(text); ok {
		return sortKey{kind: 1, number: number}
	}
	if block, err := facts.ParseBlock(text); err == nil {
		return sortKey{kind: 2, block: block}
	}
	return sortKey{kind: 3, text: text}
}

func (k sortKey) compare(other sortKey) int {
	if k.kind != other.kind || k.kind != 1 {
		return cmp.Or(cmp.Compare(k.kind, other.kind), k.block.Compare(other.block), cmp.Compare(k.text, other.text))
	}
	return k.number.Cmp(other.number)
}

// valuesOf returns the texts that an object has in a field; of a list in it, all of them.
func valuesOf(item runtime.Object, field *jsonpath.JSONPath) ([]string, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(item)
	if err != nil {
		return nil, err
	}
	found, err := field.FindResults(content)
	if err != nil {
		return nil, exit.Usagef("%w", err)
	}
	var values []string
	for _, result := range found {
		for _, value := range result {
			values = append(values, fmt.Sprint(value.Interface()))
		}
	}
	return values, nil
}
