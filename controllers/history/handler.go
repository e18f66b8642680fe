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
func Handler(ledger Ledger, names Names) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var q Query
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			http.Error(w, "send a query: "+err.Error(), http.StatusBadRequest)
			return
		}
		answer, err := Find(r.Context(), ledger, names, q)
		if err != nil {
			status := http.StatusServiceUnavailable
			if errors.Is(err, ErrQuery) {
				status = http.StatusBadRequest
			}
			http.Error(w, err.Error(), status)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			log.FromContext(r.Context()).Error(err, "answer")
		}
	}
}
