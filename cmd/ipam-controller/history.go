package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kcp-ipam/ipam/controllers/history"
	"github.com/kcp-ipam/ipam/controllers/recover"
	"github.com/kcp-ipam/ipam/internal/lookup"
)

// lookback is one run of the command history.
type lookback struct {
	*options
	query  history.Query
	at     string
	since  time.Duration
	output string
	follow bool
	// limited is set if --limit was given.
	limited bool
	from    history.From
	now     func() time.Time
	out     io.Writer // the answer
	says    io.Writer // everything else
}

const historyLong = `history shows the claims and child pools that hold or held an address, or any part of a
prefix, by time and in all workspaces. It asks the controller that runs on this machine.
If none runs, it reads the ledger.

The ledger keeps former holders for the time of the controller's --history, 90 days by
default, and at most --history-max-records of them. A claim holds its block until the
block is released. While the block cools afterwards, it has no holder.

With --follow, it prints a line of JSON for each allocation and release from now on, or
from a revision on. Each line has its revision; the last line of a revision has "last".
To resume, give the next revision. etcd compacts old revisions: if the revision is gone,
the command says how to fill the gap.

An address or prefix is found by its key. With --workspace, --claim or --scope alone, the
command reads the whole history, which takes some seconds for a million records.

The exit code is 0 even if no holder is found, 2 for a wrong command line, and 3 if
something could not be read.`

func newHistoryCommand() *cobra.Command {
	l := &lookback{options: defaults(), now: time.Now}
	cmd := &cobra.Command{
		Use:   "history [ADDRESS | PREFIX]",
		Short: "Show the current and former holders of an address",
		Long:  historyLong,
		Example: `  # show all holders of 10.64.3.7, with the controller of this data directory
  ipam-controller history 10.64.3.7 --etcd-data-dir ./ledger

  # show the holder at the time when a packet was logged
  ipam-controller history 10.64.3.7 --at 2026-03-01T14:05:00Z --etcd-data-dir ./ledger

  # show who had it in the network vpc-1, which may be gone
  ipam-controller history 10.64.3.7 --scope network=vpc-1 --etcd-data-dir ./ledger

  # print what a workspace has held since yesterday, for a program
  ipam-controller history --workspace root:orgs:acme --since 24h -o json --etcd-data-dir ./ledger

  # print all changes from revision 4711 on, for an audit
  ipam-controller history --follow --from-revision 4711 -o json --etcd-data-dir ./ledger`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args: func(cmd *cobra.Command, args []string) error {
			return usage(cobra.MaximumNArgs(1)(cmd, args))
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			l.out, l.says = cmd.OutOrStdout(), cmd.ErrOrStderr()
			l.limited = cmd.Flags().Changed("limit")
			if err := l.parse(args); err != nil {
				return usage(err)
			}
			if l.follow {
				return l.stream(cmd.Context())
			}
			return l.within(cmd.Context(), l.run)
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage(err) })
	l.addFlags(cmd.Flags())
	return cmd
}

// addFlags adds the flags of history.
func (l *lookback) addFlags(f *pflag.FlagSet) {
	l.addStoreFlags(f)
	l.addTimeoutFlag(f)
	f.StringVar(&l.query.Workspace, "workspace", "",
		"only claims of this workspace: the ID of its logical cluster, or its path where a controller runs")
	f.StringVar(&l.query.Claim, "claim", "",
		"only this claim: its allocation ID (its UID, if it shows none), or namespace/name")
	f.StringToStringVar(&l.query.Scope, "scope", nil,
		"only blocks of pools that are for this object, as ROLE=NAME, such as network=vpc-1; several: with commas")
	f.StringVar(&l.at, "at", "", "only holders at this time, such as 2026-03-01T14:05:00Z")
	f.DurationVar(&l.since, "since", 0,
		"only holders within this time before now, such as 24h; 0: all that the ledger keeps")
	f.IntVar(&l.query.Limit, "limit", 1000, "show at most so many holders, the latest")
	f.BoolVar(&l.follow, "follow", false, "print changes as they happen, until interrupted; needs -o json")
	f.Int64Var(&l.from.Revision, "from-revision", 0, "the first revision that --follow prints; 0: the next one")
	f.StringVarP(&l.output, "output", "o", "table", "output format: "+strings.Join(historyOutputs, ", "))
}

// historyOutputs are the values of --output.
var historyOutputs = []string{"table", "json"}

// parse sets the query from the arguments and flags.
func (l *lookback) parse(args []string) error {
	if !slices.Contains(historyOutputs, l.output) {
		return fmt.Errorf("--output is %q; give it one of %s", l.output, strings.Join(historyOutputs, ", "))
	}
	if l.follow || l.from.Revision != 0 {
		return errors.Join(l.validateFollow(args), l.validateEtcd())
	}
	if len(args) == 1 {
		p, err := lookup.ParsePrefix(args[0])
		if err != nil {
			return err
		}
		l.query.Prefix = p
	}
	if l.at != "" {
		at, err := lookup.ParseTime(l.at)
		if err != nil {
			return fmt.Errorf("--at: %w", err)
		}
		l.query.At = at
	}
	if l.since < 0 {
		return fmt.Errorf("--since is %s; give it how long ago, such as 24h", l.since)
	}
	if l.since > 0 {
		l.query.Since = l.now().Add(-l.since).UTC()
	}
	return errors.Join(l.query.Validate(), l.validateEtcd())
}

func (l *lookback) run(ctx context.Context) error {
	answer, err := l.find(ctx)
	if err == nil {
		err = l.print(answer)
	}
	if err != nil {
		return &exitError{error: err, code: exitFault}
	}
	if len(answer.Unreadable) > 0 {
		err = fmt.Errorf("some keys cannot be read, so holders may be missing: %s", strings.Join(answer.Unreadable, "; "))
		return &exitError{error: err, code: exitFault}
	}
	return nil
}

// find asks the running controller. If none runs, it reads the ledger.
func (l *lookback) find(ctx context.Context) (answer history.Answer, err error) {
	if l.socket() != "" {
		query, err := json.Marshal(l.query)
		if err != nil {
			return answer, err
		}
		text, err := recover.Call(ctx, l.socket(), history.Path, query)
		if err == nil {
			err = json.Unmarshal(text, &answer)
		}
		if !errors.Is(err, recover.ErrNobody) {
			return answer, err
		}
	}
	return l.read(ctx)
}

func (l *lookback) read(ctx context.Context) (answer history.Answer, err error) {
	ctx = log.IntoContext(ctx, newLogger(l.verbosity))
	store, err := l.openPresent(ctx)
	if err != nil {
		return answer, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	return history.Find(ctx, l.reader(store), nil, l.query)
}

// print writes an answer in the form of --output.
func (l *lookback) print(answer history.Answer) error {
	if l.output == "json" {
		encoder := json.NewEncoder(l.out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(answer)
	}
	if len(answer.Holders) == 0 {
		fmt.Fprintf(l.says, "the ledger knows no holder; revision %d\n", answer.Revision)
		return nil
	}
	if err := writeHolders(l.out, answer.Holders); err != nil {
		return err
	}
	if answer.More {
		fmt.Fprintf(l.says, "only the latest %d are shown; raise --limit for more\n", len(answer.Holders))
	}
	return nil
}
