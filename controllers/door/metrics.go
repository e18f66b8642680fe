package door

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// The label result takes the values below.
var (
	answers = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "ipam_create_answers_total",
		Help: "Claims whose CREATE asked for an answer, dry runs included: bound, pending with a reason, refused, " +
			"or unanswered because nobody could tell in time.",
	}, []string{"result"})
	forwarded = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "ipam_create_forwarded_total",
		Help: "CREATEs that this replica has forwarded to the leader: " +
			"answered, or unanswered because the leader could not be asked or could not tell in time.",
	}, []string{"result"})
	durations = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "ipam_create_answer_seconds",
		Help:    "Time to answer the CREATE of a claim, unanswered ones included.",
		Buckets: prometheus.ExponentialBuckets(0.001, 2, 12),
	})
)

const (
	resultAnswered   = "answered"
	resultBound      = "bound"
	resultPending    = "pending"
	resultRefused    = "refused"
	resultUnanswered = "unanswered"
)

func init() {
	metrics.Registry.MustRegister(answers, forwarded, durations)
	// An alert divides by their sum, and a series that is absent at first hides its first increase.
	for _, result := range []string{resultBound, resultPending, resultRefused, resultUnanswered} {
		answers.WithLabelValues(result)
	}
	for _, result := range []string{resultAnswered, resultUnanswered} {
		forwarded.WithLabelValues(result)
	}
}

// observe counts an answer, or a CREATE without one, and how long it took.
func observe(answer Answer, err error, took time.Duration) {
	answers.WithLabelValues(resultOf(answer, err)).Inc()
	durations.Observe(took.Seconds())
}

func resultOf(answer Answer, err error) string {
	switch {
	case err != nil:
		return resultUnanswered
	case answer.Refuse:
		return resultRefused
	case answer.Status.Phase == ipamv1alpha1.ClaimBound:
		return resultBound
	}
	return resultPending
}
