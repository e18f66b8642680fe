package local

import "syscall"

// childAttributes keep a terminal's Ctrl-C from the child. The parent stops the child in good order; if the parent
// dies without doing so, the child is killed.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
