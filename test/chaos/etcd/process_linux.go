package etcd

import "syscall"

// childAttributes have a child end with its parent, even while it is paused.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
