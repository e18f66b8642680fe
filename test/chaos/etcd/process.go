package etcd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
)

// Process is a child process that ends when its standard input or its parent ends. It is not safe for concurrent use.
type Process struct {
	Args []string
	Env  []string // beside the parent's own
	// Stdout and Stderr receive the output; nil discards it.
	Stdout, Stderr io.Writer

	cmd    *exec.Cmd
	stdin  io.WriteCloser
	exited chan struct{}
}

// Start runs the process. It returns its standard input.
func (p *Process) Start() (io.Writer, error) {
	// The process ends by Kill or with its input, not with a context.
	p.cmd = exec.CommandContext(context.Background(), p.Args[0], p.Args[1:]...)
	p.cmd.Env = append(os.Environ(), p.Env...)
	p.cmd.Stdout, p.cmd.Stderr = p.Stdout, p.Stderr
	p.cmd.SysProcAttr = childAttributes()
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", p.Args[0], err)
	}
	exited := make(chan struct{})
	p.exited = exited
	go func(cmd *exec.Cmd) {
		_ = cmd.Wait() // the caller of Kill or Stop knows why it ended; its output shows any other end
		close(exited)
	}(p.cmd)
	return p.stdin, nil
}

// Exited returns a channel that is closed when the process is gone. It belongs to the last start.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Kill ends the process at once and waits until it is gone.
func (p *Process) Kill() error { return p.end(p.signal(syscall.SIGKILL)) }

// Stop ends the process's input and waits until it is gone.
func (p *Process) Stop() error { return p.end(p.stdin.Close()) }

func (p *Process) end(err error) error {
	<-p.exited
	return err
}

// Pause stops the process with SIGSTOP, until Resume.
func (p *Process) Pause() error { return p.signal(syscall.SIGSTOP) }

// Resume lets a paused process go on.
func (p *Process) Resume() error { return p.signal(syscall.SIGCONT) }

func (p *Process) signal(s syscall.Signal) error {
	err := p.cmd.Process.Signal(s)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}
