package lookup

import (
	"net/netip"
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// ParsePrefix reads an IPv4 address in IPv6 form as IPv4, alone or with a length. Else its holders would not be
// found.
func TestParsePrefix_ReadsIPv4InIPv6Form(t *testing.T) {
	for text, want := range map[string]string{
		"::ffff:10.0.0.7": "10.0.0.7/32", "::ffff:10.0.0.7/128": "10.0.0.7/32", "::ffff:10.0.0.0/120": "10.0.0.0/24", "2001:db8::/32": "2001:db8::/32",
	} {
		if got, err := ParsePrefix(text); err != nil || got.String() != want {
			t.Errorf("ParsePrefix(%q) = %s, %v; want %s", text, got, err, want)
		}
	}
}

// A query is read from the parameters of a request as it was written into them.
func TestParseQuery_ReadsWhatValuesWrites(t *testing.T) {
	at := time.Date(2026, 3, 1, 14, 5, 0, 7, time.UTC)
	for _, q := range []Query{
		{Prefix: netip.MustParsePrefix("10.64.3.7/32"), At: at},
		{Workspace: "root:orgs:acme", Claim: "default/web", Since: at, Limit: 7},
		{Scope: map[string]string{"network": "vpc-1", "location": "a=b&c"}},
	} {
		sent, err := url.ParseQuery(q.Values().Encode())
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParseQuery(sent)
		if diff := cmp.Diff(q, got, cmpopts.EquateComparable(netip.Prefix{})); err != nil || diff != "" {
			t.Errorf("ParseQuery: %v (-written +read):\n%s", err, diff)
		}
	}
}

func TestParseQuery_RefusesInvalidQueries(t *testing.T) {
	for _, sent := range []string{"", "prefx=10.0.0.1", "prefix=10.0.0.300", "prefix=10.0.0.1&at=yesterday", "claim=a&limit=-1", "scope=vpc-1", "claim=a&reserved=true"} {
		v, err := url.ParseQuery(sent)
		if err != nil {
			t.Fatal(err)
		}
		if q, err := ParseQuery(v); err == nil {
			t.Errorf("ParseQuery(%q) = %+v; want an error", sent, q)
		}
	}
}
