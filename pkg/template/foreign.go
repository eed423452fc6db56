package template

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// A foreignForm is how another language writes something that expressions also have. The hint is
// its form here; $1 is the pattern's first group.
type foreignForm struct {
	pattern *regexp.Regexp
	hint    string
}

// foreignForms returns the table; the first form that matches around an error is the one. Patterns
// see string literals as written, but begin outside of them.
var foreignForms = sync.OnceValue(func() []foreignForm {
	const path, text = `([A-Za-z_][\w.]*)`, `("[^"]*"|'[^']*')`
	var forms []foreignForm
	for _, f := range [][2]string{
		// Templates: Jinja, JavaScript, GitHub Actions, and the placeholders of our texts.
		{`^\s*\$?\{\{\s*(.*?)\s*\}\}\s*$`, "write the expression without braces: $1"},
		{`^\s*\$\{\s*(.*?)\s*\}\s*$`, "write the expression without braces: $1"},
		{`\{((?:args|state|session|response|body)\.[\w.]+)\??\}`, "write $1: braces are for placeholders in texts"},
		{`\{((?:user|app|temp):\w+)\??\}`, `write state["$1"]: braces are for placeholders in texts`},
		{`\{([A-Za-z_]\w*)\??\}`, "write state.$1: braces are for placeholders in texts"},
		{`\$\.?((?:args|state|session)\.[\w.]+)`, "write $1"},
		{`\$\.?([A-Za-z_]\w*)`, "write state.$1 for a state key, or args.$1 for an argument"},
		// Comparisons.
		{`!==`, "write !="},
		{`<>`, "write !="},
		{`\bis\s+not\s+(?:None|null|nil|undefined)\b`, "write != nil"},
		{`\bis\s+(?:None|null|nil|undefined)\b`, "write == nil"},
		{`\bis\s+not\b`, "write !="},
		{`\bis\b`, "write =="},
		{`=~|~=`, "write matches, with a regular expression in quotes"},
		{`\bAND\b`, "write and, in lower case"},
		{`\bOR\b`, "write or, in lower case"},
		{`\bNOT\b`, "write not, in lower case"},
		{`\bin\s*\(([^()]*)\)`, "write a list in brackets: in [$1]"},
		{`^\s*(.+?)\s+if\s+(.+?)\s+else\s+(.+?)\s*$`, "write $2 ? $1 : $3"},
		// Methods, which are functions and operators here.
		{path + `\.get\(\s*` + text + `\s*(?:,[^()]*)?\)`, "write $1[$2]"},
		{path + `\.(?:length|size|count)\(\)`, "write len($1)"},
		{path + `\.length\b`, "write len($1)"},
		{path + `\.(?:toLowerCase|lower)\(\)`, "write lower($1)"},
		{path + `\.(?:toUpperCase|upper)\(\)`, "write upper($1)"},
		{path + `\.(?:trim|strip)\(\)`, "write trim($1)"},
		{path + `\.(keys|values)\(\)`, "write $2($1)"},
		{path + `\.(?:startsWith|startswith)\(([^()]*)\)`, "write $1 startsWith $2"},
		{path + `\.(?:endsWith|endswith)\(([^()]*)\)`, "write $1 endsWith $2"},
		{path + `\.(?:includes|contains)\(([^()]*)\)`, "write $1 contains $2 for a string, or $2 in $1 for a list"},
		{`\b(?:exists|defined|isset|has)\(` + path + `\)`, "write $1 != nil"},
	} {
		forms = append(forms, foreignForm{regexp.MustCompile(f[0]), f[1]})
	}
	return forms
})

// findForeignForm returns the hint for the form at an offset in a source that does not compile, or
// "".
func findForeignForm(src string, offset int) string {
	if len(src) > maxForeignSource {
		return ""
	}
	literals := findLiterals(src)
	for _, form := range foreignForms() {
		for _, m := range form.pattern.FindAllStringSubmatchIndex(src, -1) {
			if m[0] > offset || offset > m[1] || isInLiteral(literals, m[0]) {
				continue
			}
			return string(form.pattern.ExpandString(nil, strings.ReplaceAll(form.hint, "$1", "${1}"), src, m))
		}
	}
	return ""
}

// maxForeignSource limits the work for hints, which quote the source.
const maxForeignSource = 500

// findLiterals returns the ranges of the string literals in a source.
func findLiterals(src string) [][2]int {
	var found [][2]int
	for i := 0; i < len(src); i++ {
		quote := src[i]
		if quote != '"' && quote != '\'' && quote != '`' {
			continue
		}
		start := i
		for i++; i < len(src) && src[i] != quote; i++ {
			if src[i] == '\\' && quote != '`' {
				i++
			}
		}
		found = append(found, [2]int{start, i})
	}
	return found
}

func isInLiteral(literals [][2]int, offset int) bool {
	return slices.ContainsFunc(literals, func(l [2]int) bool { return l[0] < offset && offset <= l[1] })
}

// findOwner returns the member that an unknown name means: an argument, or another variable's
// member, such as args.amount for amount; "" if there is none.
func findOwner(name string, env Env) string {
	roots := slices.Sorted(maps.Keys(env))
	slices.SortStableFunc(roots, func(a, b string) int { return strings.Compare(ownerRank(a), ownerRank(b)) })
	for _, root := range roots {
		members := membersOf(env[root])
		if slices.Contains(members, name) {
			return root + "." + name
		}
		if near := findNearName(name, members); root == "args" && near != "" {
			return root + "." + near
		}
	}
	return ""
}

// ownerRank orders the variables: arguments first.
func ownerRank(root string) string {
	if root == "args" {
		return ""
	}
	return root
}

// membersOf lists a declared variable's members.
func membersOf(sample any) []string {
	switch sample := sample.(type) {
	case Env:
		return slices.Sorted(maps.Keys(sample))
	case map[string]any:
		return slices.Sorted(maps.Keys(sample))
	}
	return nil
}
