package runtime

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/google/go-cmp/cmp"

	"agenthost/pkg/model"
)

// A contentAssert is one expectation of the corpus about a place of the
// contents, for cases without the whole list. Value is nil where the
// expectation is code that only Python runs.
type contentAssert struct {
	Expr  string
	Value any
}

// failedAsserts plays the expectations that are a place and its value.
func failedAsserts(contents any, asserts []contentAssert) string {
	var failed []string
	for _, a := range asserts {
		inner, isLen := strings.CutPrefix(strings.TrimSuffix(a.Expr, ")"), "len(")
		path, ok := strings.CutPrefix(inner, "llm_request.contents")
		if !ok || a.Value == nil {
			continue
		}
		got := lookupPath(contents, path)
		if list, ok := got.([]any); ok && isLen {
			got = float64(len(list))
		}
		if diff := cmp.Diff(dropEmpty(a.Value), got); diff != "" {
			failed = append(failed, fmt.Sprintf("%s (-want +got):\n%s", a.Expr, diff))
		}
	}
	return strings.Join(failed, "\n")
}

var placeStep = regexp.MustCompile(`\[(\d+)\]|\.(\w+)`)

// lookupPath follows a path such as [0].parts[1].function_call.
func lookupPath(v any, path string) any {
	for _, m := range placeStep.FindAllStringSubmatch(path, -1) {
		if m[1] != "" {
			i, _ := strconv.Atoi(m[1])
			list, _ := v.([]any)
			if i >= len(list) {
				return nil
			}
			v = list[i]
			continue
		}
		fields, _ := v.(map[string]any)
		words := strings.Split(m[2], "_")
		for i, w := range words[1:] {
			words[i+1] = strings.ToUpper(w[:1]) + w[1:]
		}
		v = fields[strings.Join(words, "")]
	}
	return v
}

// idKeepingModel is a model whose requests hold every id.
type idKeepingModel struct{ model.LLM }

func (idKeepingModel) KeepsCallIDs() bool { return true }
