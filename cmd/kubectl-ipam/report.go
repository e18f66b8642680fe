package main

import (
	"encoding/json"
	"io"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// report prints what is no object of the API, as JSON or YAML if -o asks for it.
type report struct{ format string }

const (
	outputJSON = "json"
	outputYAML = "yaml"
)

func (r *report) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&r.format, "output", "o", "", "Output format: "+outputJSON+" or "+outputYAML)
	completeWith(cmd, "output", outputJSON, outputYAML)
}

// given reports whether the caller asked for a form.
func (r *report) given() bool { return r.format != "" }

func (r *report) validate() error {
	switch r.format {
	case "", outputJSON, outputYAML:
		return nil
	default:
		return usagef("--output is %q; write %s or %s", r.format, outputJSON, outputYAML)
	}
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
