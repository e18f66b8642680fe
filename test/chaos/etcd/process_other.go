//go:build !linux

package etcd

import "syscall"

func childAttributes() *syscall.SysProcAttr { return nil }
