package retry

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func status(code int32) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code}}
}

// An unanswered request is sent again, and its error is passed on. An answer ends the tries.
func TestAnswered(t *testing.T) {
	t.Parallel()
	lost := errors.New("connection reset")
	for name, tt := range map[string]struct {
		answers []error
		want    error
		told    int
	}{
		"a success":        {answers: []error{nil}},
		"a conflict":       {answers: []error{status(http.StatusConflict)}, want: status(http.StatusConflict)},
		"a full pool":      {answers: []error{status(http.StatusInsufficientStorage)}, want: status(http.StatusInsufficientStorage)},
		"nobody can tell":  {answers: []error{status(http.StatusServiceUnavailable), nil}, told: 1},
		"a lost answer":    {answers: []error{lost, status(http.StatusConflict)}, want: status(http.StatusConflict), told: 1},
		"a failed webhook": {answers: []error{status(http.StatusInternalServerError), lost, nil}, told: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sent, told := 0, 0
			err := Answered(t.Context(), time.Minute, func(error) { told++ }, func(context.Context) error { sent++; return tt.answers[sent-1] })
			if apierrors.ReasonForError(err) != apierrors.ReasonForError(tt.want) || (err == nil) != (tt.want == nil) || sent != len(tt.answers) || told != tt.told {
				t.Errorf("got %v, sent %d times, and told %d times; want %v, %d and %d", err, sent, told, tt.want, len(tt.answers), tt.told)
			}
		})
	}
}

// If no answer comes, the error says so, and wraps the last error.
func TestAnswered_ReturnsTheLastErrorIfNoAnswerComes(t *testing.T) {
	t.Parallel()
	lost := errors.New("connection reset")
	if err := Answered(t.Context(), 200*time.Millisecond, func(error) {}, func(context.Context) error { return lost }); !errors.Is(err, lost) {
		t.Errorf("got %v, want %v", err, lost)
	}
}
