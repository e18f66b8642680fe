package main

import "errors"

// rule is a rule for command lines: whether this one breaks it, and what to write instead.
type rule struct {
	broken bool
	says   string
}

// check returns an error with the texts of all broken rules; nil: none is broken.
func check(rules ...rule) error {
	var errs []error
	for _, r := range rules {
		if r.broken {
			errs = append(errs, errors.New(r.says))
		}
	}
	return errors.Join(errs...)
}
