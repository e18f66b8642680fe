package address

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/output"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
	"github.com/kcp-ipam/ipam/internal/lookup"
)

// history is one run of kubectl ipam history.
type history struct {
	*session.Session
	output     output.Printer
	query      lookup.Query
	at         string
	since      time.Duration
	controller string
}

// NewHistory makes kubectl ipam history.
func NewHistory(s *session.Session) *cobra.Command {
	o := &history{Session: s}
	cmd := &cobra.Command{
		Use:   "history [ADDRESS | CIDR]",
		Short: "Show who holds and held an address, in all workspaces",
		Long: `Show the claims and child pools that hold or held an address, or a part of a CIDR, by time:
from when to when, in which pool and network, and why no longer. It is for users with the role
ipam-history-viewer in the workspace of the platform, or in the cluster without kcp: the answer
names claims of all tenants, also of those that are gone.

The controller answers, at the address of its webhooks, which it publishes in the ConfigMap
ipam-address of the namespace ipam-system. Your token is sent there if that is the host of your
kubeconfig's server. For another host, or a forwarded port, give --controller.

How long the past is kept is set by the controller's --history, 90 days by default. The exit
code is 0 even if no holder is found.`,
		Example: `  # show who had the address in a network at the time when a packet was logged
  kubectl ipam history 10.112.0.7 --scope network=red --at 2026-03-01T14:05:00Z

  # show the blocks that a tenant has held since yesterday
  kubectl ipam history --workspace root:team-a --since 24h -o json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.parse(args); err != nil {
				return exit.Usagef("%w", err)
			}
			return o.run(cmd.Context())
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := cmd.Flags()
	f.StringVar(&o.at, "at", "", "Only holders at this time, such as 2026-03-01T14:05:00Z")
	f.DurationVar(&o.since, "since", 0, "Only holders within this time before now, such as 24h; 0: all that is kept")
	f.StringToStringVar(&o.query.Scope, "scope", nil,
		"Only blocks of pools that are for this object, as ROLE=NAME, such as network=vpc-1; several: with commas")
	f.StringVar(&o.query.Workspace, "workspace", "",
		"Only claims of this workspace: its path, or the ID of its logical cluster, which is known when it is gone")
	f.StringVar(&o.query.Claim, "claim", "",
		"Only this claim: its allocation ID (its UID, if it shows none), or NAMESPACE/NAME")
	f.IntVar(&o.query.Limit, "limit", lookup.UsualLimit, "Show at most so many holders, the latest")
	f.StringVar(&o.controller, "controller", "",
		"https://HOST:PORT of the controller's webhooks, if that is not the host of the kubeconfig's server; "+
			"it gets your token")
	o.output.AddFlags(cmd)
	return cmd
}

// parse sets the query from the arguments and flags.
func (o *history) parse(args []string) (err error) {
	if len(args) == 1 {
		if o.query.Prefix, err = lookup.ParsePrefix(args[0]); err != nil {
			return err
		}
	}
	if o.at != "" {
		if o.query.At, err = lookup.ParseTime(o.at); err != nil {
			return fmt.Errorf("--at: %w", err)
		}
	}
	if o.since < 0 {
		return fmt.Errorf("--since is %s; give it how long ago, such as 24h", o.since)
	}
	if o.since > 0 {
		o.query.Since = o.Now().Add(-o.since).UTC()
	}
	return o.query.Validate()
}

func (o *history) run(ctx context.Context) error {
	here, err := o.Here()
	if err != nil {
		return err
	}
	answer, err := here.History(ctx, o.controller, o.query)
	if err != nil {
		return err
	}
	t := output.NewTable("PREFIX", "FROM", "UNTIL", "WORKSPACE", "HOLDER", "POOL", "SCOPE", "STATE")
	for _, h := range answer.Holders {
		t.Rows = append(t.Rows, output.Row(nil, h.Prefix.String(), lookup.Moment(h.From), lookup.Moment(h.Until),
			cmp.Or(h.Workspace, h.Cluster), h.FullName(), h.PoolName, h.Scope, h.Ending()))
	}
	if len(answer.Holders) == 0 && !o.output.Given() {
		o.Say("no holder is known; revision %d of the ledger", answer.Revision)
		return unread(answer)
	}
	if err := o.output.PrintReport(o.Out, answer, t); err != nil {
		return err
	}
	if answer.More {
		o.Say("only the latest %d are shown; raise --limit for more", len(answer.Holders))
	}
	return unread(answer)
}

// unread returns an error if the controller could not read a part of the ledger.
func unread(answer lookup.Answer) error {
	if len(answer.Unreadable) == 0 {
		return nil
	}
	return exit.Fail(exit.Error, "kubectl logs of the controller and ipam-controller verify say more",
		"some keys of the ledger cannot be read, so holders may be missing: %s",
		answer.Unreadable[0])
}
