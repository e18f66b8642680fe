package main

import (
	"cmp"
	"fmt"
	"math/big"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
)

// sortList sorts the items of a list by a field, which a JSONPath names as in kubectl get:
// addresses and numbers by their value, other texts by their characters. Items without the
// field come first.
func sortList(list runtime.Object, path string) error {
	field, err := parseField(path)
	if err != nil {
		return usagef("--sort-by is %q; write a field such as .status.allocatedCIDR: %w", path, err)
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return err
	}
	type sortable struct {
		item runtime.Object
		by   value
	}
	all := make([]sortable, len(items))
	for i, item := range items {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(item)
		if err != nil {
			return err
		}
		found, err := field.FindResults(content)
		if err != nil {
			return usagef("--sort-by is %q: %w", path, err)
		}
		all[i].item = item
		if len(found) > 0 && len(found[0]) > 0 {
			all[i].by = valueOf(fmt.Sprint(found[0][0].Interface()))
		}
	}
	slices.SortStableFunc(all, func(a, b sortable) int { return a.by.compare(b.by) })
	for i := range all {
		items[i] = all[i].item
	}
	return meta.SetList(list, items)
}

// value is a field to sort by. The zero value is that of an item without the field.
type value struct {
	kind   int // 0: none, 1: number, 2: block, 3: text
	number *big.Float
	block  netip.Prefix
	text   string
}

func valueOf(text string) value {
	const bits = 256 // more than any number of addresses has
	if number, ok := new(big.Float).SetPrec(bits).SetString(text); ok {
		return value{kind: 1, number: number}
	}
	if block, err := parseBlock(text); err == nil {
		return value{kind: 2, block: block}
	}
	return value{kind: 3, text: text}
}

func (v value) compare(other value) int {
	if v.kind != other.kind || v.kind == 0 {
		return cmp.Compare(v.kind, other.kind)
	}
	if v.kind == 1 {
		return v.number.Cmp(other.number)
	}
	return cmp.Or(v.block.Compare(other.block), cmp.Compare(v.text, other.text))
}
