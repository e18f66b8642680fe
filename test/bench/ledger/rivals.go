package ledger

import (
	"context"
	"errors"
	"fmt"
	"io"
)

const (
	rebindBeside = 64 // callers beside the rebinders, which bind a bound claim again
	rebinders    = 8
)

// rivals measures callers beside others that could get in their way.
func rivals(ctx context.Context, opts *options, out io.Writer) (err error) {
	s, err := newStage(ctx, families[0])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	again := s.request("pool")
	if _, err := s.Bind(ctx, again); err != nil {
		return err
	}
	bind := func() error { return s.bind(ctx, "pool") }
	rebound, err := beside(opts, rival{rebindBeside, bind}, rival{rebinders, func() error {
		_, err := s.Bind(ctx, again)
		return err
	}})
	if err != nil {
		return err
	}
	t := newTable("who binds", "alone, blocks/s", "beside", "blocks/s", "÷ alone", "the rivals/s")
	t.row(fmt.Sprintf("%d callers", rebindBeside), rebound.alone.write("%.0f"), fmt.Sprintf("%d callers who bind one bound claim again and again", rebinders),
		rebound.beside.write("%.0f"), rebound.beside.over(rebound.alone).write("%.2f"), rebound.rival.write("%.0f"))
	fmt.Fprintf(out, "### Rivals\n\n%s\nAll of one pool.\n\n", t)
	return nil
}

// rival is some callers who do the same as fast as they can.
type rival struct {
	callers int
	ask     func() error
}

// besides is how often a second somebody asked, alone and beside a rival, and how often
// the rival did.
type besides struct{ alone, beside, rival figures }

func beside(opts *options, some, other rival) (b besides, err error) {
	for range opts.rounds {
		alone, err := during(opts.round(), some.callers, some.ask)
		if err != nil {
			return b, err
		}
		rates := make(chan float64, 1)
		failed := make(chan error, 1)
		go func() {
			rate, err := during(opts.round(), other.callers, other.ask)
			rates <- rate
			failed <- err
		}()
		beside, err := during(opts.round(), some.callers, some.ask)
		b.alone, b.beside, b.rival = append(b.alone, alone), append(b.beside, beside), append(b.rival, <-rates)
		if err := errors.Join(err, <-failed); err != nil {
			return b, err
		}
	}
	return b, nil
}
