//go:build !linux

package local

import "syscall"

// childAttributes keep a terminal's Ctrl-C from the child, whose parent stops it in order.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
