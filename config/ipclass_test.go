package config

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"

	"github.com/kcp-ipam/ipam/test/gen"
)

func TestIPClass_Create(t *testing.T) {
	d := platformDoors(t)["IPClass"]
	d.create(t, within("ipFamily: IPv4, ", cooldowns))
	d.create(t, []refused{
		{`ipFamily: IPv4`, ""},
		{`ipFamily: IPv4, allowedPrefixLengths: {min: 0, max: 32}, defaultPrefixLength: 32`, ""},
		{`ipFamily: IPv6, allowedPrefixLengths: {min: 48, max: 64}, defaultPrefixLength: 56`, ""},
		{`ipFamily: IPv4, unmetPolicy: Refuse`, ""},
		{`ipFamily: IPv4, provisioner: example.com/x, parameters: {a: b}, consumers: ["root:a:*"], maxPerConsumer: "64"`, ""},

		{``, "spec.ipFamily: Required value"},
		{`ipFamily: IPv4, allowedPrefixLengths: {min: 28, max: 24}`, "min must not exceed max"},
		{`ipFamily: IPv4, allowedPrefixLengths: {min: 24, max: 33}`, "spec.allowedPrefixLengths must be within 0 to 32 for IPv4"},
		{`ipFamily: IPv6, allowedPrefixLengths: {min: -1, max: 64}`, "should be greater than or equal to 0"},
		{`ipFamily: IPv6, allowedPrefixLengths: {min: 64, max: 129}`, "should be less than or equal to 128"},
		{`ipFamily: IPv4, defaultPrefixLength: 33`, "spec.defaultPrefixLength must be 1 to 32 for IPv4"},
		{`ipFamily: IPv4, defaultPrefixLength: 0`, "should be greater than or equal to 1"},
		{`ipFamily: IPv4, allowedPrefixLengths: {min: 24, max: 28}, defaultPrefixLength: 29`, "spec.defaultPrefixLength must be 24 to 28"},
		{`ipFamily: IPv4, parameters: {a: ` + strings.Repeat("b", 257) + `}`, "must not exceed 256 characters"},
		{`ipFamily: IPv4, consumers: ["root:*:a"]`, "invalid workspace"},
		{`ipFamily: IPv4, strategy: Random`, "Unsupported value"},
		{`ipFamily: IPv4, unmetPolicy: Fail`, `supported values: "Wait", "Refuse"`},
		{`ipFamily: IPv4, maxPerConsumer: "-1"`, "invalid count"},
	})
}

// cooldowns are the values of releaseCooldown, of a class or of a pool, that are admitted or refused.
var cooldowns = []refused{
	{`releaseCooldown: 30s`, ""},
	{`releaseCooldown: 24h`, ""},
	{`releaseCooldown: 1h30m`, ""},
	{`releaseCooldown: ""`, ""},
	{`releaseCooldown: "-30s"`, "invalid duration: write a number with a unit"},
	{`releaseCooldown: "30"`, "invalid duration: write a number with a unit"},
	{`releaseCooldown: soon`, "invalid duration: write a number with a unit"},
	{`releaseCooldown: 1d`, "invalid duration: write a number with a unit"},
	{`releaseCooldown: 1.5h`, "invalid duration: write a number with a unit"},
	{`releaseCooldown: 25h`, "must not exceed 24h"},
	{`releaseCooldown: 24h1s`, "must not exceed 24h"},
	{`releaseCooldown: 999999h`, "must not exceed 24h"},
}

func TestIPClass_Update(t *testing.T) {
	platformDoors(t)["IPClass"].update(t, "", [][3]string{
		{"ipFamily: IPv4", "ipFamily: IPv4, allowedPrefixLengths: {min: 24, max: 28}", ""},
		{"ipFamily: IPv4", "ipFamily: IPv6", "spec.ipFamily is immutable"},
	})
}

// The builders say what a server defaults, so that tests without a server see
// the objects that controllers see.
func TestBuilders_DefaultAsTheSchemaDoes(t *testing.T) {
	doors := platformDoors(t)
	for kind, pair := range map[string]struct {
		built    any
		manifest string
	}{
		"IPClass": {gen.Class("x"), "{spec: {ipFamily: IPv4}}"},
		"IPPool":  {gen.Pool("x"), "{spec: {cidr: 10.0.0.0/16}}"},
		"IPClaim": {gen.Claim("x"), "{spec: {}}"},
	} {
		defaulted := object(t, pair.manifest)
		defaulting.Default(defaulted, doors[kind].structural)
		want, got := fmt.Sprint(defaulted["spec"]), fmt.Sprint(object(t, pair.built)["spec"])
		if got != want {
			t.Errorf("%s: the builder gives %s, the schema %s", kind, got, want)
		}
	}
}
