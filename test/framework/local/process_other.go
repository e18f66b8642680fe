//go:build !linux

package local

import "syscall"

// childAttributes keep a terminal's Ctrl-C from the child. The parent stops the child in good order.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
