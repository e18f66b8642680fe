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
	details := detailsOf(err)
	return details != nil && details.Name == name && details.Kind == resource && !Resource(err)
}

// Resource reports whether a server says that it does not serve a resource at all, rather than that an object of it is
// not there.
func Resource(err error) bool {
	details := detailsOf(err)
	return details != nil && slices.ContainsFunc(details.Causes, func(c metav1.StatusCause) bool {
		return c.Type == metav1.CauseTypeUnexpectedServerResponse
	})
}

// detailsOf returns the details of a 404; nil for any other error.
func detailsOf(err error) *metav1.StatusDetails {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return nil
	}
	return status.Status().Details
}
