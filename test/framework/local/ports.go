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
)

// Ports are asked for below the range from which systems take the ports of outgoing
// connections, so that a process finds its own again after a restart.
const (
	firstPort = 20000
	lastPort  = 32000
)

// freePorts returns n different ports of 127.0.0.1 that nobody listens on now.
func freePorts(ctx context.Context, n int) ([]int, error) {
	var ports []int
	start := rand.IntN(lastPort - firstPort)
	for i := range lastPort - firstPort {
		port := firstPort + (start+i)%(lastPort-firstPort)
		if !free(ctx, port) {
			continue
		}
		if ports = append(ports, port); len(ports) == n {
			return ports, nil
		}
	}
	return nil, fmt.Errorf("no %d free ports between %d and %d", n, firstPort, lastPort)
}

func free(ctx context.Context, port int) bool {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address(port))
	if err != nil {
		return false
	}
	return listener.Close() == nil
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// steadyPorts returns the n ports kept in a file. If there are none, or if somebody
// else has taken one, it returns free ones that are then kept there. moved reports
// that there were others before.
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
