package template_test

import (
	"errors"
	"testing"

	"agenthost/pkg/template"
)

// TestForeignForms covers what people write who know other languages. The hint is the form here.
func TestForeignForms(t *testing.T) {
	env := template.Env{"args": map[string]any{"amount": int64(0)}, "state": map[string]any{}, "user": "", "session": template.Env{"user_id": ""}}
	for _, tt := range []struct{ src, want string }{
		{`{{ state.tier == "gold" }}`, `write the expression without braces: state.tier == "gold"`},
		{`${{ state.n > 1 }}`, `write the expression without braces: state.n > 1`},
		{`${state.n > 1}`, `write the expression without braces: state.n > 1`},
		{`{tier} == "gold"`, `write state.tier: braces are for placeholders in texts`},
		{`{user:tier?} == "gold"`, `write state["user:tier"]: braces are for placeholders in texts`},
		{`{args.amount} > 1`, `write args.amount: braces are for placeholders in texts`},
		{`$state.n > 1`, `write state.n`},
		{`$.n > 1`, `write state.n for a state key, or args.n for an argument`},
		{`state.n !== 1`, `write !=`},
		{`state.n <> 1`, `write !=`},
		{`state.n is not None`, `write != nil`},
		{`state.n is null`, `write == nil`},
		{`state.n is 1`, `write ==`},
		{`state.name =~ "a.*"`, `write matches, with a regular expression in quotes`},
		{`state.a AND state.b`, `write and, in lower case`},
		{`state.n in ("a", "b")`, `write a list in brackets: in ["a", "b"]`},
		{`"a" if state.n else "b"`, `write state.n ? "a" : "b"`},
		{`state.get("tier", "none") == "gold"`, `write state["tier"]`},
		{`user.length() > 3`, `write len(user)`},
		{`user.length > 3`, `write len(user)`},
		{`user.lower() == "yes"`, `write lower(user)`},
		{`user.startsWith("a")`, `write user startsWith "a"`},
		{`user.includes("a")`, `write user contains "a" for a string, or "a" in user for a list`},
		{`defined(state.n)`, `write state.n != nil`},
		{`tier == "gold"`, `write state.tier for a state key, or args.tier for an argument`},

		// Forms inside strings do not count.
		{`state.a = "{tier}"`, ``},
		{`state.a = "this is None"`, ``},
		{`{"a": 1`, ``},
	} {
		_, err := template.Compile(tt.src, env)
		te, ok := errors.AsType[*template.Error](err)
		if !ok {
			t.Errorf("Compile(%q) = %v, want an error", tt.src, err)
			continue
		}
		if te.Hint != tt.want {
			t.Errorf("Compile(%q): %v at %d, hint %q, want %q", tt.src, te, te.Offset, te.Hint, tt.want)
		}
	}
}

// TestUnknownNames covers names that are members of a variable, or another language's literals.
func TestUnknownNames(t *testing.T) {
	env := template.Env{"args": map[string]any{"amount": int64(0)}, "state": map[string]any{}, "session": template.Env{"user_id": ""}}
	for _, tt := range []struct{ src, want string }{
		{`amount > 100`, `unknown name amount; did you mean args.amount?`},
		{`amout > 100`, `unknown name amout; did you mean args.amount?`},
		{`user_id == "a"`, `unknown name user_id; did you mean session.user_id?`},
		{`yes`, `unknown name yes; did you mean true?`},
		{`Off`, `unknown name Off; did you mean false?`},
		{`stat.n == 1`, `unknown name stat; did you mean state?`},
		{`cuont(state.list)`, `unknown function cuont; did you mean count?`},
	} {
		if _, err := template.Compile(tt.src, env); err == nil || err.Error() != tt.want {
			t.Errorf("Compile(%q) = %v, want %q", tt.src, err, tt.want)
		}
	}
}
