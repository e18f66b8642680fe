package controllers

import (
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/client-go/rest"

	"github.com/kcp-ipam/ipam/test/must"
)

// The end of a token is exported if nothing renews the token, and the token says when it ends.
func TestObserveToken_ExportsTheEndOfATokenThatNothingRenews(t *testing.T) {
	end := time.Date(2030, time.January, 1, 0, 0, 0, 0, time.UTC)
	signed := func(claims jwt.RegisteredClaims) string {
		t.Helper()
		return must.Get(jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte("key")))(t)
	}
	ends := signed(jwt.RegisteredClaims{ExpiresAt: jwt.NewNumericDate(end)})
	for what, tt := range map[string]struct {
		cfg  rest.Config
		want int // exported series
	}{
		"a token that ends":         {rest.Config{BearerToken: ends}, 1},
		"a token that does not end": {rest.Config{BearerToken: signed(jwt.RegisteredClaims{})}, 0},
		"a token of a file":         {rest.Config{BearerToken: ends, BearerTokenFile: "token"}, 0},
		"a word":                    {rest.Config{BearerToken: "secret"}, 0},
		"a certificate":             {rest.Config{}, 0},
	} {
		tokenEnd.Reset()
		if err := ObserveToken("platform", &tt.cfg); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if got := testutil.CollectAndCount(tokenEnd); got != tt.want {
			t.Errorf("%s has %d series; want %d", what, got, tt.want)
		}
		if got := testutil.ToFloat64(tokenEnd.WithLabelValues("platform")); tt.want == 1 && got != float64(end.Unix()) {
			t.Errorf("%s ends at %.0f; want %d", what, got, end.Unix())
		}
	}
}
