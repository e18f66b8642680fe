package door

import "net/http"

const (
	// inFlight is how many requests with the token are read and decided at once; further ones wait.
	// It bounds the memory that they take, with the two constants below.
	inFlight = 128
	// largeBody is the size from which on a body counts as large, in bytes. What JSON is decoded into
	// may take twenty times its size. Hardly any claim is as large.
	largeBody = 64 << 10
	// largeInFlight is how many of those may be large.
	largeInFlight = 2
	// anybodyInFlight is how many requests without the token are read and decided at once. A
	// client that takes all of these slots gains nothing: the API server then refuses as the door would.
	anybodyInFlight = 8
)

// slots are the requests that are being read and decided. A large request waits for large ones
// alone, so that it keeps no other waiting.
type slots struct{ small, large chan struct{} }

// known are the slots of requests with the token.
func known() slots {
	return slots{small: make(chan struct{}, inFlight), large: make(chan struct{}, largeInFlight)}
}

// anybody are the slots of requests without the token.
func anybody() slots {
	all := make(chan struct{}, anybodyInFlight)
	return slots{small: all, large: all}
}

// of returns those for a request. One that does not say how long it is may be long.
func (s slots) of(r *http.Request) chan struct{} {
	if r.ContentLength >= 0 && r.ContentLength < largeBody {
		return s.small
	}
	return s.large
}
