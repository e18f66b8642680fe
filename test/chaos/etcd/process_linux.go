package etcd

import "syscall"

// childAttributes make a child end with its parent, even while the child is paused.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
