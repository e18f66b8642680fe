package recover

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
)

// ErrNobody: no controller listens at the socket.
var ErrNobody = errors.New("no controller listens")

// Ask asks the controller that listens at a socket to verify. It returns ErrNobody if none listens.
func Ask(ctx context.Context, socket string) (Report, error) {
	answer, err := Call(ctx, socket, "verify", nil)
	if err != nil {
		return Report{}, err
	}
	var report Report
	if err := json.Unmarshal(answer, &report); err != nil {
		return Report{}, fmt.Errorf("read the controller's answer: %w", err)
	}
	return report, nil
}

// AskRepair asks the controller that made a report for the repairs in it. It does not wait for them: verify again to
// see the outcome.
func AskRepair(ctx context.Context, socket string, shown Report) error {
	body, err := json.Marshal(shown)
	if err != nil {
		return err
	}
	_, err = Call(ctx, socket, "repair", body)
	return err
}

// Call sends a request to the controller that listens at a socket, and returns its answer. It returns ErrNobody if none
// listens.
func Call(ctx context.Context, socket, path string, body []byte) ([]byte, error) {
	stream, err := Stream(ctx, socket, path, body)
	if err != nil {
		return nil, err
	}
	defer stream.Close() //nolint:errcheck // It was read.
	answer, err := io.ReadAll(stream)
	if err != nil {
		return nil, fmt.Errorf("read the controller's answer: %w", err)
	}
	return answer, nil
}

// Stream sends a request as Call does, and returns the answer as a stream. The caller closes the stream.
func Stream(ctx context.Context, socket, path string, body []byte) (io.ReadCloser, error) {
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, socket) },
	}
	transport.DisableKeepAlives = true
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://ipam-controller/"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode == http.StatusOK {
		return response.Body, nil
	}
	defer response.Body.Close() //nolint:errcheck // It was read.
	says, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("read the controller's answer: %w", err)
	}
	return nil, fmt.Errorf("the controller says: %s", strings.TrimSpace(string(says)))
}

func dial(ctx context.Context, socket string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	for _, nobody := range []error{
		os.ErrNotExist,
		syscall.ECONNREFUSED, // the controller was killed
		syscall.EINVAL,       // the path is too long for a socket
	} {
		if errors.Is(err, nobody) {
			return nil, fmt.Errorf("%w at %s: %w", ErrNobody, socket, err)
		}
	}
	return conn, err
}
