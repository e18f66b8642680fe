package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // the client is gone if it fails
}

func raw(w http.ResponseWriter, code int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(body)
}

// refuse answers with the status of an error, as an API server does.
func refuse(w http.ResponseWriter, err *apierrors.StatusError) {
	status := err.ErrStatus
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	answer(w, int(status.Code), status)
}

func notFound(k kind, name string) *apierrors.StatusError {
	return apierrors.NewNotFound(schema.GroupResource{Group: k.group, Resource: k.plural}, name)
}

func conflict(k kind, name string) *apierrors.StatusError {
	return apierrors.NewConflict(schema.GroupResource{Group: k.group, Resource: k.plural}, name,
		fmt.Errorf("the object has been modified; please apply your changes to the latest version and try again"))
}

// mismatch names the kind where other errors name the resource, as kcp does.
func mismatch(k kind, name, what string) *apierrors.StatusError {
	return apierrors.NewConflict(schema.GroupResource{Group: k.group, Resource: k.name}, name, errors.New("Precondition failed: "+what))
}

func exists(k kind, name string) *apierrors.StatusError {
	return apierrors.NewAlreadyExists(schema.GroupResource{Group: k.group, Resource: k.plural}, name)
}

// unserved is the answer to a path that leads nowhere: it names no object.
func unserved(w http.ResponseWriter) {
	http.Error(w, "404 page not found", http.StatusNotFound)
}

// tooOld returns the answer to a revision that is not kept any more.
func tooOld() *apierrors.StatusError {
	return apierrors.NewResourceExpired("The resourceVersion for the provided list is too old.")
}
