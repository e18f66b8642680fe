package space

import (
	"net/netip"
	"slices"
	"testing"
)

func TestWithout_YieldsWhatTheOtherListLacks(t *testing.T) {
	list := func(texts ...string) (all []netip.Prefix) {
		for _, text := range texts {
			all = append(all, netip.MustParsePrefix(text))
		}
		return all
	}
	all := list("10.0.0.0/24", "10.0.0.0/32", "10.0.1.0/24", "10.0.3.0/24")
	for _, tt := range []struct{ list, other, want []netip.Prefix }{
		{nil, all, nil},
		{all, all, nil},
		{all, nil, all},
		{all, list("10.0.0.0/32", "10.0.2.0/24"), list("10.0.0.0/24", "10.0.1.0/24", "10.0.3.0/24")},
		{list("10.0.0.0/32", "10.0.2.0/24"), all, list("10.0.2.0/24")},
	} {
		if got := slices.Collect(without(tt.list, tt.other)); !slices.Equal(got, tt.want) {
			t.Errorf("%v without %v = %v, want %v", tt.list, tt.other, got, tt.want)
		}
	}
}
