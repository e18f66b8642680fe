package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// patience is how long a process may take to be ready, or to stop when asked to.
// The server needs 25 s on an idle machine of two cores.
const patience = 3 * time.Minute

// process is a child process. Its output is appended to a log file.
type process struct {
	name string
	args []string
	log  string

	cmd    *exec.Cmd
	exited chan struct{} // closed when the process is gone; then err is set
	err    error
}

func (p *process) start() error {
	if p.Running() {
		return fmt.Errorf("start %s: it is running", p.name)
	}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	defer log.Close() //nolint:errcheck // The child holds the file; nothing is written here.

	// The process must outlive the caller's context: it ends by stop or kill.
	p.cmd = exec.CommandContext(context.Background(), p.args[0], p.args[1:]...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = childAttributes()
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	exited := make(chan struct{})
	p.exited = exited
	go func() {
		p.err = p.cmd.Wait()
		close(exited)
	}()
	return nil
}

// Running reports whether the process was started and is not gone.
func (p *process) Running() bool {
	if p.exited == nil {
		return false
	}
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// Ended returns a channel that is closed when the process has ended. The process must have been started.
func (p *process) Ended() <-chan struct{} { return p.exited }

// Log returns the path of the log.
func (p *process) Log() string { return p.log }

// Stop asks the process to end in good order, and waits for the end. It returns an error if the process had ended by
// itself, or ends with an exit code, as it does after a data race if it was built to detect these.
func (p *process) Stop() error {
	if p.exited == nil {
		return nil
	}
	if err := p.lost(); err != nil {
		return err
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop %s: %w", p.name, err)
	}
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	select {
	case <-p.exited:
	case <-timeout.C:
		return errors.Join(fmt.Errorf("stop %s: it still runs after %s, see %s", p.name, patience, p.log), p.Kill())
	}
	p.exited = nil
	if p.err != nil {
		return fmt.Errorf("stop %s: %w, see %s", p.name, p.err, p.log)
	}
	return nil
}

// lost returns an error if the process was started and has ended by itself.
func (p *process) lost() error {
	if p.exited == nil || p.Running() {
		return nil
	}
	return fmt.Errorf("stop %s: it had ended before (%w), see %s", p.name, p.end(), p.log)
}

// Kill ends the process at once, as a crash would, and waits until it is gone.
func (p *process) Kill() error {
	if p.exited == nil {
		return nil
	}
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill %s: %w", p.name, err)
	}
	<-p.exited
	p.exited = nil
	return nil
}

// Pause stops the process with SIGSTOP, until Resume. While it is paused, Kill ends it, and Stop does not.
func (p *process) Pause() error { return p.signal(syscall.SIGSTOP) }

// Resume lets a paused process go on.
func (p *process) Resume() error { return p.signal(syscall.SIGCONT) }

func (p *process) signal(s syscall.Signal) error {
	if !p.Running() {
		return fmt.Errorf("send %s to %s: it does not run, see %s", s, p.name, p.log)
	}
	return p.cmd.Process.Signal(s)
}

// AwaitEnd waits until the process has ended by itself, in whatever way. It may be started again then.
func (p *process) AwaitEnd(ctx context.Context) error {
	if p.exited == nil {
		return fmt.Errorf("wait for %s to end: it was not started", p.name)
	}
	select {
	case <-p.exited:
		p.exited = nil
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for %s to end: %w, see %s", p.name, context.Cause(ctx), p.log)
	}
}

// end returns how the process ended. It must have ended.
func (p *process) end() error {
	if p.err == nil {
		return errors.New("exit status 0")
	}
	return p.err
}

// await calls check, which returns nil once the process is ready, until then or until the process has ended.
func (p *process) await(ctx context.Context, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not so after %s", patience))
	defer cancel()
	var missing error
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		if !p.Running() {
			return false, fmt.Errorf("it has ended: %w", p.end())
		}
		if seen := check(ctx); ctx.Err() == nil || missing == nil {
			missing = seen
		}
		return missing == nil, nil
	})
	switch {
	case err == nil:
		return nil
	case ctx.Err() == nil:
		return fmt.Errorf("wait for %s to be ready: %w, see %s", p.name, err, p.log)
	default:
		return fmt.Errorf("wait for %s to be ready: %w; last seen: %w, see %s", p.name, context.Cause(ctx), missing, p.log)
	}
}
