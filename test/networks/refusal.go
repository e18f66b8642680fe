package networks

import (
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Refusal is the part of a server's refusal that the client reads.
type Refusal struct {
	// Code is the HTTP status.
	Code int32
	// Causes are the types of details.causes; Kind and Name are those of details.
	Causes     []string
	Kind, Name string

	request string
	err     error
}

// Error implements error.
func (r *Refusal) Error() string {
	return fmt.Sprintf("%s: HTTP %d, causes %q, of %s %q: %v", r.request, r.Code, r.Causes, r.Kind, r.Name, r.err)
}

// Unwrap returns the error of the client library.
func (r *Refusal) Unwrap() error { return r.err }

// refused returns the failure of a request; nil if it has not failed. An answer of the server becomes a *Refusal.
func refused(request string, err error) error {
	if err == nil {
		return nil
	}
	answer, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok {
		return fmt.Errorf("%s: %w", request, err)
	}
	status := answer.ErrStatus
	r := &Refusal{Code: status.Code, request: request, err: err}
	if status.Details != nil {
		r.Kind, r.Name = status.Details.Kind, status.Details.Name
		for _, cause := range status.Details.Causes {
			r.Causes = append(r.Causes, string(cause.Type))
		}
	}
	return r
}

// claimOf returns the fields of a claim that the client knows.
func claimOf(claim *unstructured.Unstructured) Claim {
	return Claim{
		Name: claim.GetName(), CIDR: text(claim, "status", "allocatedCIDR"), Target: text(claim, "spec", "target"),
		Pool: text(claim, "status", "poolRef", "name"), Record: text(claim, "status", "boundAllocationRef", "name"),
	}
}

// text returns a field of an object; empty if it is absent.
func text(object *unstructured.Unstructured, fields ...string) string {
	value, _, _ := unstructured.NestedString(object.Object, fields...)
	return value
}

// scope returns a scope. Its arguments are a role and a name in turn.
func scope(rolesAndNames ...string) map[string]any {
	of := map[string]any{}
	for i := 0; i+1 < len(rolesAndNames); i += 2 {
		role := rolesAndNames[i]
		kind := strings.ToUpper(role[:1]) + role[1:]
		of[role] = map[string]any{"apiGroup": "networking.example.com", "kind": kind, "name": rolesAndNames[i+1]}
	}
	return of
}
