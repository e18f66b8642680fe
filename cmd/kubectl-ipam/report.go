package main

import (
	"encoding/json"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// report prints what is no object of the API, as JSON or YAML if -o asks for it.
type report struct {
	format string
	// also are the formats that the command prints by itself.
	also []string
}

const (
	outputJSON = "json"
	outputYAML = "yaml"
	outputName = "name"
)

// formats are all that -o takes.
func (r *report) formats() []string { return append([]string{outputJSON, outputYAML}, r.also...) }

func (r *report) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&r.format, "output", "o", "", "Output format: "+strings.Join(r.formats(), " or "))
	completeWith(cmd, "output", r.formats()...)
}

// given reports whether the caller asked for a form.
func (r *report) given() bool { return r.format != "" }

// structured reports whether that form is JSON or YAML.
func (r *report) structured() bool { return r.format == outputJSON || r.format == outputYAML }

func (r *report) validate() error {
	if r.format == "" || slices.Contains(r.formats(), r.format) {
		return nil
	}
	return usagef("--output is %q; write %s", r.format, strings.Join(r.formats(), " or "))
}

// print writes a value in the form that was asked for.
func (r *report) print(w io.Writer, value any) error {
	data, err := json.MarshalIndent(value, "", "    ")
	if err != nil {
		return err
	}
	inJSON := string(data) + "\n"
	if r.format == outputJSON {
		_, err = io.WriteString(w, safeJSON(inJSON))
		return err
	}
	document, err := yaml.JSONToYAML(data)
	if err == nil && printable(string(document)) {
		_, err = w.Write(document)
		return err
	}
	_, err = io.WriteString(w, yamlOfJSON(inJSON))
	return err
}
