package local

import "syscall"

// childAttributes keep a terminal's Ctrl-C from the child, whose parent stops it in
// order, and kill it when the parent dies without doing so.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
