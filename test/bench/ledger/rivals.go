package ledger

import (
	"context"
	"errors"
	"fmt"
	"io"
)

const (
	rebindBeside = 64 // callers beside those that bind a bound claim again
	rebinders    = 8
)

// rivals measures callers beside other callers that could get in their way.
func rivals(ctx context.Context, opts *options, out io.Writer) (err error) {
	s, err := newStage(ctx, families[0])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	again := s.request()
	if _, err := s.Bind(ctx, again); err != nil {
		return err
	}
	bind := func() error { return s.bind(ctx) }
	var alone, beside, rebound figures
	for range opts.rounds {
		quiet, err := during(opts.round(), rebindBeside, bind)
		if err != nil {
			return err
		}
		ended := make(chan error, 1)
		var theirs float64
		go func() {
			rate, err := during(opts.round(), rebinders, func() error {
				_, err := s.Bind(ctx, again)
				return err
			})
			theirs = rate
			ended <- err
		}()
		rate, err := during(opts.round(), rebindBeside, bind)
		if err := errors.Join(err, <-ended); err != nil {
			return err
		}
		alone, beside, rebound = append(alone, quiet), append(beside, rate), append(rebound, theirs)
	}
	t := newTable("who binds", "alone, blocks/s", "beside", "blocks/s", "÷ alone", "the rivals/s")
	t.row(fmt.Sprintf("%d callers", rebindBeside), alone.write("%.0f"), fmt.Sprintf("%d callers who bind one bound claim again and again", rebinders),
		beside.write("%.0f"), beside.over(alone).write("%.2f"), rebound.write("%.0f"))
	fmt.Fprintf(out, "### Rivals\n\n%s\nAll of one pool.\n\n", t)
	return nil
}
