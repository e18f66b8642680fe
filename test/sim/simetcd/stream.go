package simetcd

import (
	"context"
	"fmt"
	"slices"
	"sync"
	_ "unsafe" // for go:linkname

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// never replaces the channel that clientv3's Watcher uses as the Done of a context without end. For each stream, a
// goroutine waits for it. A channel from outside of a bubble would stop the time of the bubble, so it is nil here:
// receiving from it blocks for ever, too.
//
//go:linkname never go.etcd.io/etcd/client/v3.valCtxCh
var never chan struct{}

func init() { never = nil }

// stream is a stream of watches, both at the server and at the client.
type stream struct {
	grpc.ClientStream // nil: clientv3 calls none of its methods

	link  *Link
	ctx   context.Context
	epoch int
	out   chan *pb.WatchResponse // closed when the server ends the stream

	mu    sync.Mutex
	asks  []*pb.WatchRequest // sent and not yet read
	asked chan struct{}      // has an element if there are asks

	watches []*watch // of the server's goroutine
	ids     int64
}

// watch is one watch of a stream.
type watch struct {
	id        int64
	from, end []byte
	start     int64 // the first revision that it brings
	next      int64 // the first revision that it has not brought yet
	prev      bool  // its events have the values from before
}

var _ pb.WatchClient = (*Link)(nil)

// Watch implements pb.WatchClient.
func (l *Link) Watch(ctx context.Context, _ ...grpc.CallOption) (pb.Watch_WatchClient, error) {
	if err := l.wait(ctx, 0); err != nil {
		return nil, l.ended(err)
	}
	s := &stream{
		link: l, ctx: ctx, epoch: l.Server.current(), out: make(chan *pb.WatchResponse), asked: make(chan struct{}, 1),
	}
	go s.serve()
	return s, nil
}

// ended returns the error of a stream. After a cut, it is an error at which a client stops trying.
func (l *Link) ended(err error) error {
	select {
	case <-l.end:
		return status.Error(codes.Canceled, "the connection is closed")
	default:
		return err
	}
}

// Send implements pb.Watch_WatchClient.
func (s *stream) Send(r *pb.WatchRequest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asks = append(s.asks, r)
	select {
	case s.asked <- struct{}{}:
	default:
	}
	return nil
}

// Recv implements pb.Watch_WatchClient.
func (s *stream) Recv() (*pb.WatchResponse, error) {
	if resp, ok := <-s.out; ok {
		return resp, nil
	}
	if err := s.ctx.Err(); err != nil {
		return nil, status.FromContextError(err).Err()
	}
	return nil, s.link.ended(errAway)
}

// CloseSend implements grpc.ClientStream.
func (s *stream) CloseSend() error { return nil }

// serve answers the requests of a stream, and sends events, until the client, the connection or the server ends it.
func (s *stream) serve() {
	defer close(s.out)
	for {
		responses, news, ok := s.turn()
		if !ok {
			return
		}
		for _, resp := range responses {
			select {
			case s.out <- resp:
			case <-s.ctx.Done():
				return
			case <-s.link.end:
				return
			}
		}
		select {
		case <-s.asked:
		case <-news:
		case <-s.ctx.Done():
			return
		case <-s.link.end:
			return
		}
		if s.link.wait(s.ctx, s.link.Lag()) != nil {
			return
		}
	}
}

// turn returns the responses that the server sends now, and a channel that it closes when there may be more. ok is false
// when the server has ended all watches.
func (s *stream) turn() (responses []*pb.WatchResponse, news <-chan struct{}, ok bool) {
	s.mu.Lock()
	asks := s.asks
	s.asks = nil
	s.mu.Unlock()
	e := s.link.Server
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.epoch != s.epoch {
		return nil, nil, false
	}
	progress := false
	for _, ask := range asks {
		switch r := ask.RequestUnion.(type) {
		case *pb.WatchRequest_CreateRequest:
			responses = append(responses, s.create(r.CreateRequest, e.keys.rev))
		case *pb.WatchRequest_CancelRequest:
			responses = append(responses, s.cancel(r.CancelRequest.WatchId, e.keys.rev)...)
		case *pb.WatchRequest_ProgressRequest:
			progress = true
		}
	}
	for _, w := range slices.Clone(s.watches) {
		responses = append(responses, s.bring(w, e.keys)...)
	}
	if progress && s.synced(e.keys.rev) {
		responses = append(responses, &pb.WatchResponse{Header: header(e.keys.rev), WatchId: clientv3.InvalidWatchID})
	}
	return responses, e.news, true
}

// synced reports whether etcd sends progress on a stream: the stream has a watch, and all its watches have begun.
func (s *stream) synced(rev int64) bool {
	return len(s.watches) > 0 && !slices.ContainsFunc(s.watches, func(w *watch) bool { return w.start > rev })
}

// create begins a watch.
func (s *stream) create(r *pb.WatchCreateRequest, rev int64) *pb.WatchResponse {
	if len(r.Filters) > 0 || r.WatchId != 0 || r.Fragment {
		panic(fmt.Sprintf("simetcd: no filters, IDs or fragments of watches: %v", r))
	}
	w := &watch{id: s.ids, from: r.Key, end: r.RangeEnd, start: r.StartRevision, next: r.StartRevision, prev: r.PrevKv}
	if w.next == 0 {
		w.next = rev + 1
	}
	s.ids++
	s.watches = append(s.watches, w)
	return &pb.WatchResponse{Header: header(rev), WatchId: w.id, Created: true}
}

// cancel ends a watch.
func (s *stream) cancel(id, rev int64) []*pb.WatchResponse {
	n := len(s.watches)
	s.watches = slices.DeleteFunc(s.watches, func(w *watch) bool { return w.id == id })
	if len(s.watches) == n {
		return nil
	}
	return []*pb.WatchResponse{{Header: header(rev), WatchId: id, Canceled: true}}
}

// bring returns the response with the events that a watch has not brought yet.
func (s *stream) bring(w *watch, k *keyspace) []*pb.WatchResponse {
	if w.next < k.compacted {
		s.watches = slices.DeleteFunc(s.watches, func(o *watch) bool { return o == w })
		return []*pb.WatchResponse{{Header: header(0), WatchId: w.id, CompactRevision: k.compacted, Canceled: true}}
	}
	var events []*mvccpb.Event
	for _, v := range k.log[since(k.log, w.next):] {
		if contains(w.from, w.end, v.Key) {
			events = append(events, k.event(v, w.prev))
		}
	}
	w.next = max(w.next, k.rev+1)
	if events == nil {
		return nil
	}
	return []*pb.WatchResponse{{Header: header(k.rev), WatchId: w.id, Events: events}}
}

// event returns the event of a version. With prev, it has the value from before, unless that was compacted.
func (k *keyspace) event(v *version, prev bool) *mvccpb.Event {
	ev := &mvccpb.Event{Type: mvccpb.PUT, Kv: v}
	if v.Version == 0 {
		ev.Type = mvccpb.DELETE
	}
	if prev && v.Version != 1 {
		ev.PrevKv = k.at(string(v.Key), v.ModRevision-1)
	}
	return ev
}
