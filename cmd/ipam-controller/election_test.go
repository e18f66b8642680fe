package main

import (
	"testing"
	"time"
)

func TestElection_Validate(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		election
		refused bool
	}{
		{name: "the defaults", election: defaults().election},
		{name: "no whole seconds", election: election{lease: 2500 * time.Millisecond, renew: 2 * time.Second, retry: time.Second}, refused: true},
		{name: "a deadline after the lease", election: election{lease: 2 * time.Second, renew: 2 * time.Second, retry: time.Second}, refused: true},
		{name: "one look before the deadline", election: election{lease: 10 * time.Second, renew: time.Second, retry: time.Second}, refused: true},
		{name: "no pause between looks", election: election{lease: 10 * time.Second, renew: 8 * time.Second}, refused: true},
	} {
		if err := test.validate(); (err != nil) != test.refused {
			t.Errorf("%s: %v; want it refused: %t", test.name, err, test.refused)
		}
	}
}
