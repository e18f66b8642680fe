// Package absent tells "there is no such object" from every other 404 of an API server.
package absent

import (
	"errors"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Object reports whether a server says that it has no object of this resource and name. Any other
// 404 says nothing about the object: for example, a server that starts does not serve the resource
// yet.
func Object(err error, resource, name string) bool {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details != nil && details.Name == name && details.Kind == resource &&
		!slices.ContainsFunc(details.Causes, func(c metav1.StatusCause) bool {
			return c.Type == metav1.CauseTypeUnexpectedServerResponse
		})
}
