package transfer

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/plan"
)

// MostPlan is the size of the largest plan that is read, in bytes.
const MostPlan = 64 << 20

// standardInput is the file name that stands for stdin, and stdin is the name for it in messages.
const (
	standardInput = "-"
	stdin         = "stdin"
)

// read reads the plan, and returns the problems in the plan itself.
func (o *planImport) read() (*plan.Plan, []plan.Problem, error) {
	form := strings.ToLower(filepath.Ext(o.file))
	switch form {
	case ".csv", ".yaml", ".yml", ".json":
	default:
		if o.file != standardInput {
			return nil, nil, exit.Usagef("%s is no plan: give a file whose name ends with .csv, .yaml or .json, or - for stdin",
				o.file)
		}
	}
	data, err := o.readFile()
	if err != nil {
		return nil, nil, err
	}
	read := plan.ReadYAML
	if form == ".csv" || o.file == stdin && !manifest.Match(data) {
		read = plan.ReadCSV
	} else if err := o.forTables(); err != nil {
		return nil, nil, err
	}
	if o.options.Namespace, err = o.Namespace(); err != nil {
		return nil, nil, err
	}
	p, wrong := read(data, o.options)
	wrong = plan.Join(wrong, p.Check())
	if len(wrong)+len(p.Pools)+len(p.Claims) == 0 {
		err = exit.Fail(exit.Invalid, "", "%s describes nothing: write pools and claims", o.file)
	}
	return p, wrong, err
}

// manifest matches the beginning of YAML or JSON, because stdin has no file name that tells the form.
var manifest = regexp.MustCompile(`^(\x{feff})?(\s*(#.*)?\r?\n)*\s*` +
	`(---|\{|\[|(apiVersion|kind|metadata|spec|items):(\s|$))`)

// forTables refuses flags that only make sense for a table.
func (o *planImport) forTables() error {
	for _, flag := range []string{"column", "ignore-column", "default", "leave-out", "separator"} {
		if o.given(flag) {
			return exit.Usagef("--%s is for tables, and %s is none; write the fields in the file, or give a .csv file",
				flag, o.file)
		}
	}
	return nil
}

// readFile reads the file or stdin, unless it is too large.
func (o *planImport) readFile() ([]byte, error) {
	in := o.In
	if o.file == standardInput {
		o.file = stdin
	} else {
		file, err := os.Open(o.file)
		if err != nil {
			return nil, exit.Fail(exit.NotFound, "", "%w", err)
		}
		defer file.Close() //nolint:errcheck // The file is only read.
		in = file
	}
	data, err := io.ReadAll(io.LimitReader(in, MostPlan+1))
	if err == nil && len(data) > MostPlan {
		err = exit.Fail(exit.Invalid, "split it, with each pool in the file of its claims", "%s is larger than %d MiB",
			o.file, MostPlan>>20)
	}
	return data, err
}
