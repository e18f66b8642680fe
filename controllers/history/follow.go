package history

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// FollowPath is the path below its socket at which a controller streams events.
const FollowPath = "follow"

// Follower yields the events of a ledger. An [allocator.Reader] does.
type Follower interface {
	Follow(ctx context.Context, from int64) iter.Seq2[ledger.Event, error]
}

// From asks for the events from this revision on; 0: from now on.
type From struct {
	Revision int64 `json:"revision"`
}

// Line is one event, an unreadable key, or why the stream ends.
type Line struct {
	// Event is the kind of the change, at Revision of the ledger.
	Event    ledger.EventKind `json:"event,omitempty"`
	Revision int64            `json:"revision,omitempty"`
	// Last: no other event of this revision follows.
	Last bool `json:"last,omitempty"`
	// Holder is the holder of the block. Its own Revision is that of the last change to the block.
	Holder *Holder `json:"holder,omitempty"`
	// Unreadable is the error of a key that cannot be read. An event may be missing because of it.
	Unreadable string `json:"unreadable,omitempty"`
	// Error is why the stream ends.
	Error string `json:"error,omitempty"`
	// Forgotten is the first revision that etcd still has, if it has compacted the requested one.
	Forgotten int64 `json:"forgotten,omitempty"`
}

// Follow yields the lines of a ledger until ctx ends. A line with an Error is the last one. If names is nil, workspaces
// have IDs only.
func Follow(ctx context.Context, ledger Follower, names Names, from From) iter.Seq[Line] {
	return func(yield func(Line) bool) {
		for e, err := range ledger.Follow(ctx, from.Revision) {
			if ctx.Err() != nil || !yield(lineOf(e, err, names)) {
				return
			}
		}
	}
}

func lineOf(e ledger.Event, err error, names Names) Line {
	switch {
	case err != nil && ledger.Unreadable(err):
		return Line{Revision: e.Revision, Unreadable: err.Error()}
	case err != nil:
		line := Line{Error: err.Error()}
		if forgotten, ok := errors.AsType[*ledger.ForgottenError](err); ok {
			line.Forgotten = forgotten.First
		}
		return line
	}
	h := holderOf(e.Tenure)
	if names != nil {
		h.Workspace = names.Workspace(ledger.ClusterName(h.Cluster)).Path
	}
	return Line{Event: e.Kind, Revision: e.Revision, Last: e.Last, Holder: &h}
}

// FollowHandler streams over HTTP: the request is a From as JSON, the response a Line as JSON for each event. The
// stream ends when the client or the server closes it.
func FollowHandler(ledger Follower, names Names) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var from From
		if err := json.NewDecoder(r.Body).Decode(&from); err != nil {
			http.Error(w, "send the revision to begin at: "+err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/x-ndjson")
		control, lines := http.NewResponseController(w), json.NewEncoder(w)
		err := control.Flush() // shows the client that the stream has begun
		for line := range Follow(r.Context(), ledger, names, from) {
			if err == nil {
				err = errors.Join(lines.Encode(line), control.Flush())
			}
			if err != nil {
				log.FromContext(r.Context()).Info("the stream of the history is cut off", "why", err.Error())
				return
			}
		}
	}
}
