package history

import (
	"encoding/json"
	"errors"
	"net/http"

	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Path is where a controller answers, below its socket.
const Path = "history"

// Handler answers queries over HTTP: a Query as JSON, and an Answer.
type Handler struct {
	Ledger Ledger
	Names  Names
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var q Query
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		http.Error(w, "send a query: "+err.Error(), http.StatusBadRequest)
		return
	}
	answer, err := Find(r.Context(), h.Ledger, h.Names, q)
	if errors.Is(err, ErrQuery) {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		log.FromContext(r.Context()).Error(err, "answer")
	}
}
