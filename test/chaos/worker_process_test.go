package chaos

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/kcp-ipam/ipam/test/chaos/etcd"
	"github.com/kcp-ipam/ipam/test/framework/wire"
)

// host runs a worker, starts a new one after each end, and passes requests to the running one.
type host struct {
	process etcd.Process
	links   []*wire.Link // to the members

	mu   sync.Mutex
	life *life
	born chan struct{} // closed when there is a life
}

// life is one run of a worker.
type life struct {
	in      *json.Encoder
	ended   <-chan struct{}
	mu      sync.Mutex
	answers map[int]chan outcome
}

func newHost(links []*wire.Link, log io.Writer) *host {
	var addrs []string
	for _, l := range links {
		addrs = append(addrs, l.Addr())
	}
	return &host{
		process: etcd.Process{Args: os.Args[:1], Env: []string{workerEnv + "=" + strings.Join(addrs, ",")}, Stderr: log},
		links:   links, born: make(chan struct{}),
	}
}

// start runs a worker. When start returns, the worker's allocator may still be opening.
func (h *host) start() error {
	out, write := io.Pipe()
	h.process.Stdout = write
	in, err := h.process.Start()
	if err != nil {
		return err
	}
	l := &life{in: json.NewEncoder(in), ended: h.process.Exited(), answers: map[int]chan outcome{}}
	go l.read(out)
	go func() {
		<-l.ended
		_ = write.Close()
	}()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.life = l
	close(h.born)
	return nil
}

// kill ends the worker. Requests wait for the next worker.
func (h *host) kill() error {
	h.mu.Lock()
	h.life, h.born = nil, make(chan struct{})
	h.mu.Unlock()
	return h.process.Kill()
}

// read passes the answers on to the callers.
func (l *life) read(out io.Reader) {
	for lines := json.NewDecoder(out); ; {
		var a answer
		if lines.Decode(&a) != nil {
			return
		}
		l.mu.Lock()
		l.answers[a.ID] <- a.outcome
		delete(l.answers, a.ID)
		l.mu.Unlock()
	}
}

// alive waits until a worker runs.
func (h *host) alive(ctx context.Context) *life {
	for {
		h.mu.Lock()
		l, born := h.life, h.born
		h.mu.Unlock()
		if l != nil {
			return l
		}
		select {
		case <-born:
		case <-ctx.Done():
			return nil
		}
	}
}

// do sends a request to the worker and returns its answer. If the worker ends before it answers, the outcome is
// unknown.
func (l *life) do(r request) outcome {
	answer := make(chan outcome, 1)
	l.mu.Lock()
	l.answers[r.ID] = answer
	err := l.in.Encode(r)
	l.mu.Unlock()
	if err != nil {
		return outcome{Unknown: err.Error()}
	}
	select {
	case o := <-answer:
		return o
	case <-l.ended:
		return outcome{Unknown: "the allocator's process has ended"}
	}
}
