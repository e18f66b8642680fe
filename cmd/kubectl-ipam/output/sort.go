package output

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/jsonpath"

	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/facts"
)

// Sort sorts the items of a list by a field. path names the field by a JSONPath as in kubectl get, with or without
// braces and the first dot. Addresses and numbers are sorted by value, other texts by their characters. Items without
// the field come first. Equal items keep their order. An empty path leaves the list as it is.
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
	keys := map[runtime.Object]string{}
	for _, item := range items {
		if keys[item], err = valueOf(item, field); err != nil {
			return err
		}
	}
	slices.SortStableFunc(items, func(a, b runtime.Object) int { return compare(keys[a], keys[b]) })
	return meta.SetList(list, items)
}

// compare orders empty texts first, then numbers by value, then blocks by address, then all other texts by their
// characters. Numbers must come before texts: if 10 and 5x were compared as texts, and 9 and 10 as numbers, the order
// would have a circle.
func compare(a, b string) int {
	const bits = 256 // more than any number of addresses has
	less, isLess := new(big.Float).SetPrec(bits).SetString(a)
	more, isMore := new(big.Float).SetPrec(bits).SetString(b)
	left, noLeft := facts.ParseBlock(a)
	right, noRight := facts.ParseBlock(b)
	switch {
	case a == "" || b == "":
		return cmp.Compare(len(a), len(b))
	case isLess && isMore:
		return less.Cmp(more)
	case isLess != isMore:
		return before(isLess)
	case noLeft == nil && noRight == nil:
		return left.Compare(right)
	case (noLeft == nil) != (noRight == nil):
		return before(noLeft == nil)
	}
	return cmp.Compare(a, b)
}

func before(first bool) int {
	if first {
		return -1
	}
	return 1
}

// valueOf returns the text of a field of an object; empty without the field. If the field is a list, it returns the
// first element.
func valueOf(item runtime.Object, field *jsonpath.JSONPath) (string, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(item)
	if err != nil {
		return "", err
	}
	found, err := field.FindResults(content)
	if err != nil {
		return "", exit.Usagef("%w", err)
	}
	for _, result := range found {
		for _, value := range result {
			return fmt.Sprint(value.Interface()), nil
		}
	}
	return "", nil
}
