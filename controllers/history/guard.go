package history

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kcp-ipam/ipam/internal/lookup"
)

const (
	// atOnce is how many requests by users are served at once; further ones are refused. Each request asks the API server
	// twice, and may read the whole history.
	atOnce = 4
	// patience is how long an answer may take.
	patience = 30 * time.Second
)

// Served answers users who have the right to get [lookup.Path] at the API server of the platform. A request has its
// query in its parameters, and the token of its user. Every replica can serve it. Safe for concurrent use.
func Served(server client.Client, ledger Ledger, names Names) http.Handler {
	slots := make(chan struct{}, atOnce)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		default:
			http.Error(w, "too many people ask for the history at once; ask again", http.StatusTooManyRequests)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), patience)
		defer cancel()
		r = r.WithContext(ctx)
		// This replaces the deadline of the server, where that is possible.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(patience))
		if status, why := refused(ctx, server, r); why != "" {
			if status == http.StatusUnauthorized {
				w.Header().Set("WWW-Authenticate", "Bearer")
			}
			http.Error(w, why, status)
			return
		}
		q, err := lookup.ParseQuery(r.URL.Query())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		respond(w, r, ledger, names, q)
	})
}

// refused returns the status and the message for a request whose user may not ask. The message is empty if the user
// may.
func refused(ctx context.Context, server client.Client, r *http.Request) (status int, why string) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || token == "" {
		return http.StatusUnauthorized, "send the token of a user of the platform, as the header Authorization: Bearer TOKEN"
	}
	known := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	if err := server.Create(ctx, known); err != nil {
		log.FromContext(ctx).Error(err, "cannot check who asks for the history")
		return http.StatusServiceUnavailable, "the API server cannot check the token now; ask again"
	}
	if !known.Status.Authenticated {
		return http.StatusUnauthorized, "the API server of the platform does not know the token"
	}
	user := known.Status.User
	may := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: map[string]authorizationv1.ExtraValue{},
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: lookup.Path, Verb: "get"},
	}}
	for key, values := range user.Extra {
		may.Spec.Extra[key] = authorizationv1.ExtraValue(values)
	}
	if err := server.Create(ctx, may); err != nil {
		log.FromContext(ctx).Error(err, "cannot check who may ask for the history")
		return http.StatusServiceUnavailable, "the API server cannot check your rights now; ask again"
	}
	if !may.Status.Allowed {
		return http.StatusForbidden, fmt.Sprintf("user %q has no right to get %s; the role %s gives it",
			user.Username, lookup.Path, lookup.Role)
	}
	return 0, ""
}
