package main

import "errors"

// rule is a command line that cannot work, if it is broken, and what to write instead.
type rule struct {
	broken bool
	says   string
}

// check returns what all broken rules say.
func check(rules ...rule) error {
	var errs []error
	for _, r := range rules {
		if r.broken {
			errs = append(errs, errors.New(r.says))
		}
	}
	return errors.Join(errs...)
}
