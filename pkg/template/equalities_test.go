package template_test

import (
	"fmt"
	"testing"

	"agenthost/pkg/template"
)

func TestEqualitiesJoinedByOr(t *testing.T) {
	for src, want := range map[string]string{
		`state.tier == "gold"`:                    "[{state tier gold}] true",
		`"gold" == state["tier"]`:                 "[{state tier gold}] true",
		`state.n in [1, 2.5] || state?.b == true`: "[{state n 1} {state n 2.5} {state b true}] true",
		`state.a == 1 or state.b > 1`:             "[{state a 1}] false",
		`state.tier == "gold" and state.n == 1`:   "[] false",
		`state.tier != "gold"`:                    "[] false",
		`state.tier in other`:                     "[] false",
		`state.tier in ["a", user]`:               "[] false",
		`state.a.b == 1`:                          "[] false",
		`user == "a"`:                             "[] false",
		`1 == 1`:                                  "[] false",
		`state.tier ==`:                           "[] false",
	} {
		got, ok := template.Equalities(src)
		if s := fmt.Sprint(got, ok); s != want {
			t.Errorf("Equalities(%s) = %s, want %s", src, s, want)
		}
	}
}
