package fleet

import (
	"encoding/json"
	"regexp"
)

// template is the JSON of an object with words to be replaced. It is taken apart once, so that the stand-in
// takes little of the processors that it shares with what is measured.
type template struct {
	texts, words []string // a text, a word, and so on; a text is last
	size         int      // of the texts
}

var word = regexp.MustCompile(`\$[a-z]+`)

func newTemplate(object any) (t template) {
	data, err := json.Marshal(object)
	if err != nil {
		panic(err) // of values of this package
	}
	text := string(data)
	t.texts, t.words, t.size = word.Split(text, -1), word.FindAllString(text, -1), len(text)
	return t
}

// of returns the object with the values of its words.
func (t template) of(value func(word string) string) []byte {
	const most = 40 // bytes of a value, as a rule
	object := append(make([]byte, 0, t.size+most*len(t.words)), t.texts[0]...)
	for i, word := range t.words {
		object = append(object, value(word)...)
		object = append(object, t.texts[i+1]...)
	}
	return object
}
