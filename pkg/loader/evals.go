package loader

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"

	"agenthost/internal/evalfile"
	"agenthost/pkg/eval"
	"agenthost/pkg/spec"
)

// evalConfigFile is the name of ADK's files with the criteria of the sets in their folder.
const evalConfigFile = "test_config.json"

// checkEvals reports the problems of eval files, of ADK's eval sets and test files, and of
// their configs.
func (r *resolver) checkEvals(ctx context.Context) {
	names := &evalfile.Names{Tools: r.collectTestNames(ctx).Tools}
	if names.Tools != nil {
		names.Tools = append(slices.Clone(names.Tools), "transfer_to_agent", "set_model_response", "adk_request_confirmation", "adk_request_credential")
	}
	for _, file := range r.findFiles(ctx, "eval sets", evalfile.Suffix, ".evalset.json", ".test.json", evalConfigFile) {
		if !strings.HasSuffix(file, ".json") {
			n, ds := r.src.readDocument(file)
			if n != nil {
				_, more := evalfile.Decode(n, names)
				ds = append(ds, more...)
			}
			r.report(ds...)
			continue
		}
		if name := path.Base(file); strings.HasSuffix(name, ".json") && (name == evalConfigFile || !strings.HasSuffix(name, evalConfigFile)) {
			r.report(r.checkEvalJSON(file)...)
		}
	}
}

// checkEvalJSON returns the problems of a file of ADK.
func (r *resolver) checkEvalJSON(file string) spec.Diagnostics {
	at := r.src.displayPath(file)
	src, err := r.src.readWithinBudget(file)
	if isLimitError(err) {
		return spec.Diagnostics{r.src.budget.exceeded.toDiagnostic(r.src.displayDir)}
	}
	if err != nil {
		return spec.Diagnostics{{Pos: spec.Pos{File: at}, Rule: "file", Message: "cannot read the file: " + formatOSError(err)}}
	}
	if path.Base(file) == evalConfigFile {
		var config *eval.Config
		if config, err = eval.ReadConfig(at, src); err == nil {
			err = config.CheckMetrics()
		}
	} else {
		_, err = eval.ReadSet(at, src, nil)
	}
	var ds spec.Diagnostics
	if err != nil && !errors.As(err, &ds) {
		ds = spec.Diagnostics{{Pos: spec.Pos{File: at}, Rule: "eval-file", Message: err.Error()}}
	}
	return ds
}
