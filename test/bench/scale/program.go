package scale

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kcp-ipam/ipam/test/bench/harness"
	"github.com/kcp-ipam/ipam/test/framework/local"
)

// program is a controller, and where its profiles are.
type program struct {
	*local.Controller
	name  string // of the controller that looks at claims, in the metrics
	pprof string
}

// origin says what a program is made from.
type origin struct {
	pkg     string
	command string // of the program. Default: none
	metrics string // the name of the controller in the metrics
}

func (s *stage) newProgram(ctx context.Context, from origin, identity *rest.Config, flags ...string) (*program, error) {
	dir := filepath.Join(s.Dir, from.metrics)
	binary := filepath.Join(dir, "controller")
	if err := local.Build(ctx, from.pkg, binary); err != nil {
		return nil, err
	}
	pprof, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	c, err := local.NewController(ctx, local.ControllerOptions{
		Binary: binary, Command: from.command, Dir: dir, Workspace: platform, Identity: identity,
		Flags: append([]string{"--pprof-bind-address=" + pprof}, flags...),
	})
	if err != nil {
		return nil, err
	}
	return &program{Controller: c, name: from.metrics, pprof: "http://" + pprof + "/debug/pprof"}, nil
}

// freeAddress is one that nobody listens at.
func freeAddress(ctx context.Context) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

func (p *program) metrics(ctx context.Context) (harness.Metrics, error) {
	text, err := p.Metrics(ctx)
	if err != nil {
		return nil, err
	}
	return harness.ParseMetrics(text)
}

// answered is how many claims were bound since it was started.
func (p *program) answered(ctx context.Context) (float64, error) {
	m, err := p.metrics(ctx)
	return m.Sum("ipam_allocation_duration_seconds", "result", "bound"), err
}

// size is what a program takes of the machine.
type size struct {
	resident, live, goroutines float64 // bytes, bytes of the heap that are in use, a number
}

// size measures after a collection of garbage.
func (p *program) size(ctx context.Context) (size, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.pprof+"/heap?gc=1", nil)
	if err != nil {
		return size{}, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return size{}, err
	}
	_, err = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	if err != nil {
		return size{}, err
	}
	m, err := p.metrics(ctx)
	return size{m.Sum("process_resident_memory_bytes"), m.Sum("go_memstats_heap_alloc_bytes"), m.Sum("go_goroutines")}, err
}

// begin is how a program has started.
type begin struct {
	ready, settled time.Duration
	writes         float64 // that it has made of the API's objects
}

// begin starts a program, and waits until it has looked at every claim.
func (s *stage) begin(ctx context.Context, p *program) (begin, error) {
	before, err := s.writes(ctx)
	if err != nil {
		return begin{}, err
	}
	began := time.Now()
	if err := p.Start(ctx); err != nil {
		return begin{}, err
	}
	b := begin{ready: time.Since(began)}
	err = harness.Eventually(ctx, patience, "every claim to be looked at", func(ctx context.Context) error {
		m, err := p.metrics(ctx)
		if err != nil {
			return err
		}
		looks, queued := m.Sum("controller_runtime_reconcile_total", "controller", p.name), m.Sum("workqueue_depth")
		if looks < float64(s.filled) || queued > 0 {
			return fmt.Errorf("%.0f of %d were, and %.0f are queued", looks, s.filled, queued)
		}
		return nil
	})
	b.settled = time.Since(began)
	if err != nil {
		return b, err
	}
	after, err := s.writes(ctx)
	b.writes = after - before
	return b, err
}
