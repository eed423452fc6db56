package template_test

import (
	"context"
	"fmt"
	"net/url"

	"agenthost/pkg/template"
)

// state is a Scope without artifacts.
type state map[string]any

func (s state) Lookup(key string) (any, bool) {
	v, ok := s[key]
	return v, ok
}

func (state) Artifact(context.Context, string) (string, bool, error) { return "", false, nil }

func Example() {
	ctx := context.Background()
	text := template.Parse("Help {user:name?}, a {tier} customer. {!tier} is {limits}.")
	s := state{"tier": "gold", "limits": map[string]any{"refund": int64(300)}}
	fmt.Println(text.Render(ctx, s))
	fmt.Println(template.Parse("{order}").Render(ctx, s))

	env := template.Env{"state": map[string]any{}}
	route, err := template.CompileBool(`state.tier == "gold" and (state.score ?? 0) < 8`, env)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(route.Bool(ctx, map[string]any{"state": map[string]any(s)}))
	// Output:
	// Help , a gold customer. {tier} is {"refund":300}. <nil>
	//  Context variable not found: `order`.
	// true <nil>
}

func ExampleParsePaths() {
	p, err := template.ParsePaths("/orders/{args.id}?note={args.note?}")
	if err != nil {
		fmt.Println(err)
		return
	}
	args := map[string]any{"args": map[string]any{"id": "a/7"}}
	lookup := func(path string) (any, bool) { return template.Dig(args, path) }
	fmt.Println(p.Render(lookup, url.PathEscape))
	// Output: /orders/a%2F7?note= <nil>
}

func ExampleCompile() {
	_, err := template.Compile(`stat.score >= 8`, template.Env{"state": nil})
	fmt.Println(err)

	vat, err := template.Compile(`round(args.net * 21) / 100`, template.Env{"args": map[string]any{}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(vat.Eval(context.Background(), map[string]any{"args": map[string]any{"net": 12.5}}))
	// Output:
	// unknown name stat; did you mean state?
	// 2.63 <nil>
}
