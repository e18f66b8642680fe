package simkcp

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// answer returns an answer whose body is JSON.
func answer(code int, body any) *http.Response {
	b, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	return raw(code, b)
}

func raw(code int, b []byte) *http.Response {
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(b)), ContentLength: int64(len(b)),
	}
}

// refuse returns the answer of a refusal.
func refuse(err *apierrors.StatusError) *http.Response {
	status := err.ErrStatus
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	return answer(int(status.Code), status)
}

// failed returns the answer of a server that fails.
func failed(code int) *http.Response {
	return refuse(&apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: int32(code), Message: "injected", Reason: metav1.StatusReasonInternalError,
	}})
}

// unserved returns the answer to a path that is not served. It names no object.
func unserved() *http.Response {
	r := raw(http.StatusNotFound, []byte("404 page not found"))
	r.Header.Set("Content-Type", "text/plain")
	return r
}
