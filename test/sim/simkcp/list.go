package simkcp

import (
	"bytes"
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/storage"
)

// page says which part of a list a request wants, and at which revision.
type page struct {
	limit    int
	after    string // the key after which it begins
	revision int64  // zero: the present one
}

// pageOf returns the page that a request wants.
func pageOf(query url.Values) (p page, err error) {
	p.limit, _ = strconv.Atoi(query.Get("limit"))
	if token := query.Get("continue"); token != "" {
		after, revision, err := storage.DecodeContinue(token, "/")
		if err != nil {
			return p, fmt.Errorf("invalid continue token: %w", err)
		}
		p.after, p.revision = after[1:], revision
	}
	if query.Get("resourceVersionMatch") == string(metav1.ResourceVersionMatchExact) {
		p.revision, err = strconv.ParseInt(query.Get("resourceVersion"), 10, 64)
	}
	return p, err
}

// lists answers a LIST: the objects of the page that the selectors select.
func (w *World) lists(r *http.Request, q request) *http.Response {
	selected, err := q.selector(r.URL.Query())
	if err != nil {
		return refuse(apierrors.NewBadRequest(err.Error()))
	}
	p, err := pageOf(r.URL.Query())
	if err != nil {
		return refuse(apierrors.NewBadRequest(err.Error()))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.revision > w.revision {
		return refuse(apierrors.NewTimeoutError("Too large resource version", 1))
	}
	p.revision = cmp.Or(p.revision, w.revision)
	objects, kept := q.at(p.revision)
	if !kept {
		return refuse(apierrors.NewResourceExpired("The provided continue parameter is too old to display a consistent list result. " +
			"You can start a new list without the continue parameter."))
	}
	places := q.places(objects, q.scope)
	places = slices.DeleteFunc(places, func(at place) bool { return at.key() <= p.after || !selected(objects[at]) })
	meta := metav1.ListMeta{ResourceVersion: strconv.FormatInt(p.revision, 10)}
	if p.limit > 0 && len(places) > p.limit {
		meta.Continue, err = storage.EncodeContinue("/"+places[p.limit-1].key(), "/", p.revision)
		if err != nil {
			return refuse(apierrors.NewInternalError(err))
		}
		if r.URL.Query().Get("labelSelector")+r.URL.Query().Get("fieldSelector") == "" {
			meta.RemainingItemCount = new(int64(len(places) - p.limit))
		}
		places = places[:p.limit]
	}
	return q.listed(places, objects, meta)
}

// listed returns a list.
func (q request) listed(places []place, objects map[place][]byte, meta metav1.ListMeta) *http.Response {
	var out bytes.Buffer
	fmt.Fprintf(&out, `{"apiVersion":%q,"kind":%q,"metadata":{"resourceVersion":%q`, q.apiVersion(q.version), q.kind.name+"List", meta.ResourceVersion)
	if meta.Continue != "" {
		fmt.Fprintf(&out, `,"continue":%q`, meta.Continue)
	}
	if meta.RemainingItemCount != nil {
		fmt.Fprintf(&out, `,"remainingItemCount":%d`, *meta.RemainingItemCount)
	}
	out.WriteString(`},"items":[`)
	for i, at := range places {
		if i > 0 {
			out.WriteByte(',')
		}
		out.Write(q.in(objects[at]))
	}
	out.WriteString("]}\n")
	return raw(http.StatusOK, out.Bytes())
}

// selector returns a function that reports whether the selectors of a request select an object.
func (q request) selector(query url.Values) (func(object []byte) bool, error) {
	byLabel, err := labels.Parse(query.Get("labelSelector"))
	if err != nil {
		return nil, err
	}
	byField, err := fields.ParseSelector(query.Get("fieldSelector"))
	if err != nil {
		return nil, err
	}
	for _, one := range byField.Requirements() {
		if q.group == ipamGroup && one.Field != "metadata.name" && one.Field != "metadata.namespace" {
			return nil, fmt.Errorf("field label not supported: %s", one.Field)
		}
	}
	if byLabel.Empty() && byField.Empty() {
		return func([]byte) bool { return true }, nil
	}
	return func(object []byte) bool {
		o := parse(object)
		return byLabel.Matches(labels.Set(o.GetLabels())) &&
			byField.Matches(fields.Set{"metadata.name": o.GetName(), "metadata.namespace": o.GetNamespace()})
	}, nil
}
