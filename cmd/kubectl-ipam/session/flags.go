package session

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// choice is a flag that takes one of a few words, whatever their case.
type choice[T ~string] struct {
	value *T
	words []T
}

// Choose gives a command a flag whose value is one of a few words, and completes it. The value that
// it has by now is the default.
func Choose[T ~string](cmd *cobra.Command, value *T, flag, usage string, words ...T) {
	cmd.Flags().Var(&choice[T]{value, words}, flag, usage)
	CompleteWith(cmd, flag, texts(words)...)
}

// String implements pflag.Value.
func (c *choice[T]) String() string {
	if c.value == nil {
		return ""
	}
	return string(*c.value)
}

// Set implements pflag.Value.
func (c *choice[T]) Set(text string) error {
	for _, word := range c.words {
		if strings.EqualFold(text, string(word)) {
			*c.value = word
			return nil
		}
	}
	return fmt.Errorf("write %s", strings.Join(texts(c.words), " or "))
}

// Type implements pflag.Value.
func (c *choice[T]) Type() string { return "string" }

// Length is a flag that takes 28 as well as /28. Zero when it is not given.
type Length int32

func (l *Length) String() string {
	if *l == 0 {
		return ""
	}
	return fmt.Sprint(int32(*l))
}

// Set implements pflag.Value.
func (l *Length) Set(text string) error {
	length, err := strconv.ParseUint(strings.TrimPrefix(text, "/"), 10, 8)
	if err != nil || length < 1 || length > 128 {
		return errors.New("write a prefix length, 1 to 32 for IPv4 and 1 to 128 for IPv6")
	}
	*l = Length(length)
	return nil
}

// Type implements pflag.Value.
func (l *Length) Type() string { return "length" }

// Check adds to what is checked of a command line before the command runs. An error is one of usage.
func Check(cmd *cobra.Command, check func() error) {
	earlier := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if earlier != nil {
			if err := earlier(cmd, args); err != nil {
				return err
			}
		}
		return check()
	}
}

// texts converts words of the API to texts.
func texts[T ~string](words []T) []string { return converted[string](words) }

// Words converts texts to a type of the API.
func Words[T ~string](texts []string) []T { return converted[T](texts) }

func converted[To, From ~string](from []From) []To {
	to := make([]To, len(from))
	for i, text := range from {
		to[i] = To(text)
	}
	return to
}
