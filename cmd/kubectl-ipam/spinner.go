package main

import (
	"fmt"
	"io"
	"time"
)

// spinner shows on a terminal that the program waits, and for what. Elsewhere it
// is silent.
type spinner struct {
	words chan string
	done  chan struct{}
}

// spin starts a spinner. The caller stops it.
func (s *session) spin(words string) *spinner {
	sp := &spinner{words: make(chan string), done: make(chan struct{})}
	frames := time.NewTicker(120 * time.Millisecond)
	if s.terminal == nil {
		frames.Stop()
	}
	go func() {
		defer close(sp.done)
		defer frames.Stop()
		turn(s.terminal, words, frames.C, sp.words)
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
			fmt.Fprintf(w, "%s%c %s", wipe, frames[drawn%len(frames)], plain(shown))
			drawn++
		}
	}
}

// say changes the words.
func (s *spinner) say(words string) { s.words <- words }

// stop wipes the spinner away and returns when that is done.
func (s *spinner) stop() {
	close(s.words)
	<-s.done
}
