package check

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
)

// patience says whether the checks are repeated until none fails, and for how long.
type patience struct {
	wait    bool
	timeout time.Duration
}

// between is the time between two looks.
const between = time.Second

func (p *patience) addFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&p.wait, "wait", false, "Repeat the checks until none fails")
	cmd.Flags().DurationVar(&p.timeout, "timeout", 5*time.Minute, "How long --wait repeats them; then the last ones are shown")
	session.Check(cmd, func() error {
		if p.timeout <= 0 {
			return exit.Usagef("--timeout is %s; write a duration such as 5m", p.timeout)
		}
		return nil
	})
}

// repeat looks once, or until no check fails or the time is over, and returns the checks of the last look.
// It says which check fails first, each time that another one does.
func (p *patience) repeat(ctx context.Context, s *session.Session, look func(context.Context) (checklist, error)) (checklist, error) {
	if !p.wait {
		return look(ctx)
	}
	var last checklist
	said := ""
	err := wait.PollUntilContextTimeout(ctx, between, p.timeout, true, func(ctx context.Context) (bool, error) {
		list, err := look(ctx)
		if err != nil {
			return false, err
		}
		last = list
		failed := list.failed()
		if len(failed) == 0 {
			return true, nil
		}
		if words := failed[0].Check + ": " + failed[0].Found; words != said {
			said = words
			s.Say("waiting for %s", words)
		}
		return false, nil
	})
	if ctx.Err() == nil && wait.Interrupted(err) && len(last.Checks) > 0 {
		return last, nil
	}
	return last, err
}
