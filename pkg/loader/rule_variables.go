package loader

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"agenthost/pkg/spec"
)

// foreignVariables matches variables in other programs' notation, with upper-case names: ${X} and
// $X (shells), ${env.X} (docker-agent), ${{ secrets.X }} (GitHub), {{env.X}}, os.environ/X
// (LiteLLM), $env:X (PowerShell), ${input:x} (VS Code), {{X}} (n8n, Postman), and %X% (Windows). %X%
// and $X also occur in encoded URLs and in prices, so they must be a word.
var foreignVariables = sync.OnceValue(func() *regexp.Regexp {
	const name = `([A-Z_][A-Z0-9_]*)`
	return regexp.MustCompile(`\$\{(?:env\.)?` + name + `(?::?[-?=][^}]*)?\}|\$?\{\{ *(?:(?:env|secrets|vars|\$env)\.)?` + name + ` *\}\}|\$\{input:([\w-]+)\}|` +
		`\bos\.environ/` + name + `|\bos\.environ\[['"]` + name + `['"]\]|\$env:` + name + `|` +
		`(?:^|[\s/=:@])\$([A-Z_][A-Z0-9_]+)|(?:^|\s)%([A-Z_][A-Z0-9_]{2,})%`)
})

// instructionVariables matches the variables that are reported in instructions, where $AAPL and 5 %
// are words: with braces, or with an underscore in the name.
var instructionVariables = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\$\{(?:env\.)?([A-Z][A-Z0-9_]+)(?::?-[^}]*)?\}|\$([A-Z][A-Z0-9]*_[A-Z0-9_]+)\b|%([A-Z][A-Z0-9]*_[A-Z0-9_]+)%`)
})

// checkForeignVariables warns about variables in another program's notation, which are sent as they
// are. It looks at values that a service or a program reads, and at instructions, except for code in
// backticks: in other texts such a notation may be meant.
func checkForeignVariables(app *appModel) spec.Diagnostics {
	var ds spec.Diagnostics
	for _, root := range app.documents {
		ds = append(ds, findForeignVariables(root, "")...)
	}
	return mergeByPlace(ds)
}

// findForeignVariables looks at a node that is a key's value.
func findForeignVariables(n *spec.Node, key string) spec.Diagnostics {
	var ds spec.Diagnostics
	for _, e := range n.Entries {
		inner := e.Key.Value
		if isSentMapping(key) {
			inner = key
		}
		ds = append(ds, findForeignVariables(e.Value, inner)...)
	}
	for _, item := range n.Items {
		ds = append(ds, findForeignVariables(item, key)...)
	}
	if n.Kind == spec.Scalar && slices.Contains([]string{"instruction", "global_instruction", "static_instruction"}, key) {
		return append(ds, findInstructionVariables(n)...)
	}
	if n.Kind != spec.Scalar || !isSentMapping(key) && !isSentField(key) {
		return ds
	}
	text, hasReferences := n.BeforeInterpolation()
	if !hasReferences {
		text = n.Value
	}
	for _, m := range foreignVariables().FindAllStringSubmatchIndex(text, -1) {
		written, name := readForeignVariable(text, m)
		d := n.Warnf("variable", "%s is not a variable here: it is used as it is", written)
		if !hasReferences {
			d = n.Text().Warnf(m[0]+strings.Index(text[m[0]:m[1]], written), "variable", "%s is not a variable here: it is used as it is", written)
		}
		ds = append(ds, d.WithHint("write ${env:%s}, or ${secret:%s} for a secret", name, name).
			WithProposal(written, "${env:"+name+"}").WithProposal(written, "${secret:"+name+"}"))
	}
	return ds
}

// findInstructionVariables looks at an instruction, which models see as it is.
func findInstructionVariables(n *spec.Node) spec.Diagnostics {
	if n.HasReference() {
		return nil // offsets are not those of the source
	}
	var ds spec.Diagnostics
	for _, m := range instructionVariables().FindAllStringSubmatchIndex(n.Value, -1) {
		if strings.Count(n.Value[:m[0]], "`")%2 > 0 {
			continue // code
		}
		written, name := readForeignVariable(n.Value, m)
		ds = append(ds, n.Text().Warnf(m[0], "variable", "%s is not a variable here: the model sees it as it is", written).
			WithHint("write ${env:%s}, or put it in backticks if it is code", name).WithProposal(written, "${env:"+name+"}"))
	}
	return ds
}

// joinVariableProblems gives an address that a foreign variable breaks the hint about the variable,
// so that both are one problem.
func joinVariableProblems(ds spec.Diagnostics) spec.Diagnostics {
	hints := map[spec.Pos]spec.Diagnostic{}
	line := func(at spec.Pos) spec.Pos { return spec.Pos{File: at.File, Line: at.Line} }
	for _, d := range ds {
		if d.Rule == "variable" {
			hints[line(d.Pos)] = d
		}
	}
	joined := map[spec.Pos]bool{}
	for i, d := range ds {
		if hint, ok := hints[line(d.Pos)]; ok && d.Rule == "url" && d.Hint == "" {
			ds[i].Pos, ds[i].Hint, ds[i].Proposals = hint.Pos, hint.Hint, hint.Proposals
			joined[hint.Pos] = true
		}
	}
	return slices.DeleteFunc(ds, func(d spec.Diagnostic) bool { return d.Rule == "variable" && joined[d.Pos] })
}

// readForeignVariable returns a match for foreignVariables as written, and its name.
func readForeignVariable(text string, m []int) (written, name string) {
	for i := 2; i < len(m); i += 2 {
		if m[i] >= 0 {
			name = strings.ToUpper(strings.ReplaceAll(text[m[i]:m[i+1]], "-", "_"))
		}
	}
	return strings.TrimLeft(text[m[0]:m[1]], " \t\r\n/=:@"), name
}

// isForeignVariable reports whether a string's offset is in a variable in another program's
// notation.
func isForeignVariable(text string, offset int) bool {
	const before, after = 16, 128 // characters, since texts may be long
	from := max(offset-before, 0)
	text, offset = text[from:min(offset+after, len(text))], offset-from
	return slices.ContainsFunc(foreignVariables().FindAllStringIndex(text, -1), func(m []int) bool {
		return m[0] <= offset && offset < m[1]
	})
}

// isSentMapping reports whether all values below a key are sent to a service or a program.
func isSentMapping(key string) bool {
	return slices.Contains([]string{"headers", "additional_headers", "query", "env", "auth", "auth_credential", "connections"}, key)
}

// isSentField reports whether a field is an address, a credential or a model name.
func isSentField(key string) bool {
	if slices.Contains([]string{"model", "url", "base_url", "token", "password", "username", "project", "location", "cwd", "endpoint"}, key) {
		return true
	}
	return slices.ContainsFunc([]string{"_url", "_token", "_secret", "_password", "api_key", "client_id"}, func(end string) bool {
		return strings.HasSuffix(key, end)
	})
}
