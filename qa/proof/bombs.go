package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/expr-lang/expr"

	"agenthost/pkg/loader"
	"agenthost/pkg/template"
	"agenthost/pkg/tool/declare"
)

// Limits for one bomb.
const (
	bombTime   = 250 * time.Millisecond
	bombMemory = 64 << 20
)

// A bomb is a small input that expands to a large value.
type bomb struct {
	name string
	// setOff returns an error if the input is rejected.
	setOff func(ctx context.Context) error
}

// bombRows is M27.
func bombRows(ctx context.Context, l *lab) ([]row, error) {
	all, err := yamlBombs(filepath.Join(l.dir, "bombs"))
	if err != nil {
		return nil, err
	}
	all = append(append(all, expressionBombs()...), valueBombs()...)
	refused, peak, expensive := 0, resourceCost{}, []string{}
	largest, longest := "", ""
	for _, b := range all {
		s := measureCost(func() error { return b.setOff(ctx) })
		for range l.choose(2, 9) { // keep the cheapest run: other processes share the CPU caches
			repeat := measureCost(func() error { return b.setOff(ctx) })
			s.time, s.memory = min(s.time, repeat.time), min(s.memory, repeat.memory)
		}
		if s.err != nil {
			refused++
		}
		if s.time > bombTime || s.memory > bombMemory {
			expensive = append(expensive, fmt.Sprintf("%s: %s, %d MiB", b.name, roundMillis(s.time), s.memory>>20))
		}
		if s.time > peak.time {
			peak.time, longest = s.time, b.name
		}
		if s.memory > peak.memory {
			peak.memory, largest = s.memory, b.name
		}
	}
	control := measureCost(func() error {
		program, err := expr.Compile(`reduce(1..23, #acc + #acc, "aaaaaaaaaa")`)
		if err == nil {
			_, err = expr.Run(program, nil)
		}
		return err
	})
	if control.err != nil {
		return nil, control.err
	}
	return []row{{
		"M27: no file, expression or value takes 250 ms of CPU time or 64 MiB of memory",
		fmt.Sprintf("%d bombs: %d rejected, the others harmless, %d too expensive%s; at most %s (%s) and %.1f MiB allocated (%s); control, the expression library alone: %d MiB and no error",
			len(all), refused, len(expensive), strings.Join(append([]string{""}, expensive...), ": "), roundMillis(peak.time), longest, float64(peak.memory)/(1<<20), largest, control.memory>>20),
		len(expensive) == 0 && refused > len(all)/2 && control.memory > bombMemory,
	}}, nil
}

// yamlBombs returns apps, each in its own folder.
func yamlBombs(dir string) ([]bomb, error) {
	const head = "name: a\ninstruction: x\n"
	var all []bomb
	for name, text := range map[string]string{
		"laughs":                 head + "x: " + billionLaughs(9),
		"aliases of a long text": head + "x: &x " + strings.Repeat("x", 100_000) + "\ny: [" + strings.Repeat("*x, ", 999) + "*x]",
		"brackets":               strings.Repeat("[", 40_000),
		"closed brackets":        head + "x: " + strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000),
		"braces":                 strings.Repeat("{a: ", 20_000),
		"dashes":                 strings.Repeat("- ", 40_000),
		"questions":              strings.Repeat("? ", 40_000),
		"half a million items":   head + "x: [" + strings.Repeat("a,", 1<<19-100) + "]",
		"items":                  head + "x: [" + strings.Repeat("a,", 49_000) + "]",
		"pairs":                  head + "x: [" + strings.Repeat("\"a\":1,", 24_000) + "]",
		"merges":                 head + "<<: [" + repeatNumbered(10_000, "{a%d: 1},") + "{}]",
		"a long text":            head + "description: " + strings.Repeat("a", 1<<20-100),
		"escapes":                head + "description: \"" + strings.Repeat("\\u00e9", 170_000) + "\"",
		"digits":                 head + "max_iterations: " + strings.Repeat("9", 1<<19),
		"a long key":             strings.Repeat("a", 1<<19) + ": 1\n",
		"unknown fields":         head + repeatNumbered(5_000, "instruction%d: x\n"),
		"unknown tools":          head + "tools:\n" + repeatNumbered(3_000, "- {name: tool_%d}\n"),
		"peers":                  head + "sub_agents:\n" + repeatNumbered(2_000, "- {name: s%d, instruction: x}\n"),
		"agents that double":     addDoubling("sub_agents: [{use: a%[2]d}, {use: a%[2]d}], agent_class: SequentialAgent", "agent_class: SequentialAgent\nname: a\nsub_agents: [{use: a0}]\nagents:\n  a25: {instruction: x}\n"),
		"schemas that double":    addDoubling("x: a%[2]d, y: a%[2]d", head+"output_schema: a0\nschemas:\n  a25: {x: string}\n"),
		"a wide schema":          head + "output_schema:\n" + repeatNumbered(5_000, "  k%d: string\n"),
		"many keys of state":     head + "state_schema:\n" + repeatNumbered(5_000, "  k%d: string\n"),
		"placeholders":           "name: a\ninstruction: \"" + strings.Repeat("{a}", 100_000) + "\"\n",
		"open placeholders":      "name: a\ninstruction: \"" + strings.Repeat("{<", 20_000) + "\"\n",
		"parentheses":            head + "tools: [{expr: {name: t, value: \"" + strings.Repeat("(", 100_000) + "\"}}]\n",
		"a sum":                  head + "tools: [{expr: {name: t, value: \"" + strings.Repeat("1+", 8_000) + "1\"}}]\n",
		"a folded pattern":       head + "tools: [{expr: {name: t, value: '\"a\" matches \"((a{1000}){1000}){1000}\"'}}]\n",
		"references":             "name: a\ninstruction: \"" + strings.Repeat("${env:A:-b}", 20_000) + "\"\n",
	} {
		app := filepath.Join(dir, strings.ReplaceAll(name, " ", "_"))
		if err := (files{"root_agent.yaml": text}).writeTo(app); err != nil {
			return nil, err
		}
		all = append(all, bomb{name, func(ctx context.Context) error {
			got, ds := loader.New(listKinds(), nil).Load(ctx, app)
			if got != nil {
				got.Close()
			}
			return ds.Err()
		}})
	}
	return all, nil
}

// repeatNumbered repeats the format with the numbers 0 to n-1.
func repeatNumbered(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// addDoubling appends 25 parts to a document. Each part uses the next one twice.
func addDoubling(part, text string) string {
	for i := range 25 {
		text += fmt.Sprintf("  a%[1]d: {"+part+"}\n", i, i+1)
	}
	return text
}

// expressionBombs returns expressions that are evaluated with a 1 MiB string and a deeply nested
// list.
func expressionBombs() []bomb {
	deep := any("x")
	for range 5_000 {
		deep = []any{deep}
	}
	vars := map[string]any{"doc": strings.Repeat("a", 1<<20), "json": strings.Repeat("[", 1<<20), "deep": deep}
	var all []bomb
	for _, src := range []string{
		`reduce(1..24, #acc + #acc, "aaaaaaaaaaaaaaaa")`, `map(1..999999, # * 2)`, `sum(1..9999, sum(1..9999, 1))`, `repeat("a", 9223372036854775807)`,
		`join(map(1..999, repeat("a", 9999)), ",")`, `reduce(1..60, [#acc, #acc], 0)`, `toJSON(reduce(1..60, [#acc, #acc], 0))`, `len(1..1000000000)`,
		`doc matches "(a?){200}b"`, `doc matches "((a{30}){30})b"`, `doc matches ("(a|a)*" + "b")`, `count(1..200000, doc contains "b")`, `replace(doc, "", doc)`, `split(doc, "")`,
		`fromJSON(json)`, `toJSON(deep)`, `deep == [deep]`, `flatten(deep)`, `sort(split(doc, ""))`, `groupBy(1..999999, #)`,
	} {
		all = append(all, bomb{src, func(ctx context.Context) error {
			e, err := template.Compile(src, template.Env{"doc": "", "json": "", "deep": nil})
			if err == nil {
				_, err = e.Eval(ctx, vars)
			}
			return err
		}})
	}
	return all
}

// valueBombs returns values as models or the state may contain them.
func valueBombs() []bomb {
	large := largeState{strings.Repeat("a", 1<<20)}
	text := template.Parse(strings.Repeat("{a}", 1<<18))
	return []bomb{
		{"a value in many places", func(ctx context.Context) error { _, err := text.Render(ctx, large); return err }},
		{"a schema that refers to itself", func(ctx context.Context) error {
			s, err := declare.Schema(map[string]any{"$ref": "#"})
			if err == nil {
				_, err = s.Parse(ctx, "{}")
			}
			return err
		}},
		{"JSON in JSON", func(ctx context.Context) error {
			s, err := declare.Schema(map[string]any{"type": "array", "items": map[string]any{"$ref": "#"}})
			if err == nil {
				_, err = s.Parse(ctx, strings.Repeat("[", 1<<20))
			}
			return err
		}},
		{"JSON in JSON, closed", func(ctx context.Context) error {
			var v any
			return json.Unmarshal([]byte(strings.Repeat("[", 9_999)+strings.Repeat("]", 9_999)), &v)
		}},
	}
}

// largeState is a state in which every key has the same large value.
type largeState struct{ value string }

// Lookup returns the large value for every key.
func (h largeState) Lookup(string) (any, bool) { return h.value, true }

// Artifact never finds an artifact.
func (h largeState) Artifact(context.Context, string) (string, bool, error) { return "", false, nil }
