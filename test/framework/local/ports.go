package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
)

// Ports are taken from below the range that systems use for outgoing connections, so that a process gets its own
// ports again after a restart.
const (
	firstPort = 20000
	lastPort  = 32000
	blockSize = 100
)

// mine hands out the ports of this process.
var mine ports

// ports hands out ports that no other process with a ports takes, even while nobody listens on them. Each process has
// blocks of its own. It locks a block by listening on the block's first port until it ends.
type ports struct {
	mu        sync.Mutex
	next, end int // what is left of the last block
	locks     []net.Listener
}

// freePorts returns n different ports of 127.0.0.1 that nobody listens on now. This process does
// not get them again.
func freePorts(ctx context.Context, n int) ([]int, error) { return mine.take(ctx, n) }

func (p *ports) take(ctx context.Context, n int) ([]int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var taken []int
	for len(taken) < n {
		if p.next == p.end {
			if err := p.lock(ctx); err != nil {
				return nil, err
			}
		}
		if free(ctx, p.next) {
			taken = append(taken, p.next)
		}
		p.next++
	}
	return taken, nil
}

// lock takes another block of ports.
func (p *ports) lock(ctx context.Context) error {
	const blocks = (lastPort - firstPort) / blockSize
	for _, block := range rand.Perm(blocks) {
		first := firstPort + block*blockSize
		lock, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address(first))
		if err == nil {
			p.locks = append(p.locks, lock)
			p.next, p.end = first+1, first+blockSize
			return nil
		}
	}
	return fmt.Errorf("no %d free ports in a row between %d and %d", blockSize, firstPort, lastPort)
}

func free(ctx context.Context, port int) bool {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address(port))
	if err != nil {
		return false
	}
	return listener.Close() == nil
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// steadyPorts returns the n ports that a file keeps. If there is no such file, or if another process uses one of
// them, it returns free ports, and keeps those in the file. moved reports that the file had other ports before.
func steadyPorts(ctx context.Context, file string, n int) (ports []int, moved bool, err error) {
	data, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, false, err
	}
	for field := range strings.FieldsSeq(string(data)) {
		port, err := strconv.Atoi(field)
		if err != nil {
			return nil, false, fmt.Errorf("ports in %s: %w", file, err)
		}
		if free(ctx, port) {
			ports = append(ports, port)
		}
	}
	if len(ports) == n {
		return ports, false, nil
	}
	ports, err = freePorts(ctx, n)
	if err != nil {
		return nil, false, err
	}
	text := strings.Trim(fmt.Sprint(ports), "[]")
	return ports, len(data) > 0, os.WriteFile(file, []byte(text+"\n"), 0o644)
}
