package screen

import (
	"fmt"
	"io"
	"time"

	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/legible"
)

// Spinner shows on a terminal that the program waits, and for what. Elsewhere it
// is silent.
type Spinner struct {
	words chan string
	done  chan struct{}
}

// Spin starts a spinner on a terminal, or a silent one without a terminal. The caller stops it.
func Spin(terminal io.Writer, words string) *Spinner {
	sp := &Spinner{words: make(chan string), done: make(chan struct{})}
	frames := time.NewTicker(120 * time.Millisecond)
	if terminal == nil {
		frames.Stop()
	}
	go func() {
		defer close(sp.done)
		defer frames.Stop()
		turn(terminal, words, frames.C, sp.words)
	}()
	return sp
}

// turn draws a frame at each tick, until there are no more words.
func turn(w io.Writer, shown string, ticks <-chan time.Time, words <-chan string) {
	const wipe = "\r\x1b[K"
	frames := []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")
	drawn := 0
	for {
		select {
		case next, ok := <-words:
			if ok {
				shown = next
				continue
			}
			if drawn > 0 {
				fmt.Fprint(w, wipe)
			}
			return
		case <-ticks:
			fmt.Fprintf(w, "%s%c %s", wipe, frames[drawn%len(frames)], legible.Text(shown))
			drawn++
		}
	}
}

// Say changes the words.
func (s *Spinner) Say(words string) { s.words <- words }

// Stop wipes the spinner away and returns when that is done.
func (s *Spinner) Stop() {
	close(s.words)
	<-s.done
}
