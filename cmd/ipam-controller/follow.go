package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kcp-ipam/ipam/controllers/history"
	"github.com/kcp-ipam/ipam/controllers/recover"
)

// validateFollow refuses a command line that --follow or --from-revision does not allow. The error says what to write
// instead.
func (l *lookback) validateFollow(args []string) error {
	switch {
	case !l.follow:
		return errors.New("--from-revision says where --follow begins; give --follow, too")
	case l.from.Revision < 0:
		return fmt.Errorf("--from-revision is %d; give it the revision after the last that you have, or 0 for now",
			l.from.Revision)
	case l.output != "json":
		return errors.New("--follow prints lines of JSON; give it -o json")
	case l.limited:
		return errors.New("--follow prints all that happens; leave --limit out")
	case len(args) > 0 || !reflect.DeepEqual(l.query, history.Query{Limit: l.query.Limit}) || l.at != "" || l.since != 0:
		return errors.New("--follow prints all that happens; select from its lines")
	}
	return nil
}

// stream prints events until it is interrupted.
func (l *lookback) stream(ctx context.Context) error {
	err := l.follows(ctx)
	if err != nil && ctx.Err() == nil {
		return &exitError{error: err, code: exitFault}
	}
	return nil // an interrupt is the usual end
}

// follows follows the running controller. If none runs, it reads etcd.
func (l *lookback) follows(ctx context.Context) error {
	if l.socket() == "" {
		return l.followLedger(ctx)
	}
	from, err := json.Marshal(l.from)
	if err != nil {
		return err
	}
	lines, err := recover.Stream(ctx, l.socket(), history.FollowPath, from)
	if errors.Is(err, recover.ErrNobody) {
		return l.followLedger(ctx)
	}
	if err != nil {
		return err
	}
	defer lines.Close() //nolint:errcheck // The stream was only read.
	decoder := json.NewDecoder(lines)
	for {
		var line history.Line
		if err := decoder.Decode(&line); err != nil {
			return fmt.Errorf("the controller has ended the stream; resume after the last revision: %w", err)
		}
		if err := printLine(l.out, line); err != nil {
			return err
		}
	}
}

// followLedger reads etcd without a controller.
func (l *lookback) followLedger(ctx context.Context) (err error) {
	ctx = log.IntoContext(ctx, newLogger(l.verbosity))
	store, err := l.openPresent(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	for line := range history.Follow(ctx, l.reader(store), nil, l.from) {
		if err := printLine(l.out, line); err != nil {
			return err
		}
	}
	return nil
}

// printLine prints an event. If the line says why the stream ends, printLine returns that as an error.
func printLine(out io.Writer, line history.Line) error {
	switch {
	case line.Forgotten > 0:
		return fmt.Errorf("%s; see what ended meanwhile with history --since, and resume with --follow --from-revision %d",
			line.Error, line.Forgotten)
	case line.Error != "":
		return errors.New(line.Error)
	}
	return json.NewEncoder(out).Encode(line)
}
