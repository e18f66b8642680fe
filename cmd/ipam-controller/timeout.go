package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"
)

// wholeTimeout is the default of --timeout for a command that does not serve. It is enough to read millions of blocks.
const wholeTimeout = 10 * time.Minute

// addTimeoutFlag adds the flag --timeout, for a command that does not serve.
func (o *options) addTimeoutFlag(f *pflag.FlagSet) {
	f.DurationVar(&o.timeout, "timeout", wholeTimeout, "how long the command may take; 0: any time")
}

// within calls run, and ends its context after --timeout.
func (o *options) within(ctx context.Context, run func(context.Context) error) error {
	if o.timeout <= 0 {
		return run(ctx)
	}
	limited, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	err := run(limited)
	if err != nil && ctx.Err() == nil && errors.Is(limited.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("not done within %s; see that the servers run and can be reached, "+
			"or give it longer by --timeout: %w", o.timeout, err)
	}
	return err
}
