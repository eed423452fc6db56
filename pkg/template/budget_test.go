package template_test

import (
	"strings"
	"testing"
	"time"

	"agenthost/pkg/template"
)

// TestBudget checks that evaluations within their own limits fail once they
// exceed a shared budget, and succeed without one.
func TestBudget(t *testing.T) {
	for _, tt := range []struct {
		name, src string
		budget    func() *template.Budget
		most      int
		want      string
	}{
		{"rounds", "len(map(1..3000, map(1..3, #)))", func() *template.Budget { return template.NewBudget(1<<20, time.Hour) }, 8, "the expressions of this turn exceed the limit of 1 MiB together"},
		{"texts", "len(repeat('x', 60000))", func() *template.Budget { return template.NewBudget(1<<20, time.Hour) }, 20, "the expressions of this turn exceed the limit of 1 MiB together"},
		{"result", "s", func() *template.Budget { return template.NewBudget(1<<20, time.Hour) }, 12, "the expressions of this turn exceed the limit of 1 MiB together"},
		{"time", "len(map(1..3000, map(1..3, #)))", func() *template.Budget { return template.NewBudget(1<<40, time.Millisecond) }, 5, "the expressions of this turn exceed the limit of 1ms together"},
		{"small ones", "n + 1", func() *template.Budget {
			return template.NewBudget(template.DefaultBudgetMemory, template.DefaultBudgetTime)
		}, 1000, ""},
		{"none", "len(map(1..3000, map(1..3, #)))", func() *template.Budget { return nil }, 20, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x, err := template.Compile(tt.src, template.Env{"n": 0, "s": nil})
			if err != nil {
				t.Fatal(err)
			}
			vars := map[string]any{"n": int64(1), "s": strings.Repeat("x", 100_000), template.BudgetName: tt.budget()}
			for range tt.most {
				if _, err = x.Eval(t.Context(), vars); err != nil {
					break
				}
			}
			if got := message(err); got != tt.want {
				t.Errorf("after %d evaluations: %q, want %q", tt.most, got, tt.want)
			}
		})
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
