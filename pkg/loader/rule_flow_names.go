package loader

import (
	"regexp"
	"slices"
	"strings"

	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// malformedPlaceholder finds what looks like a placeholder with a prefix or a path.
var malformedPlaceholder = regexp.MustCompile(`\{\s*([A-Za-z_]\w*)([:.])([A-Za-z_]\w*)\??\s*\}`)

// templateTag finds the tags of Jinja and its like.
var templateTag = regexp.MustCompile(`\{%-?\s*(\w+)[^%{}]*%\}`)

// statePrefixes are those of the state, without their colons.
func statePrefixes() []string { return []string{"app", "temp", "user"} }

// checkPlaceholders warns of what looks like a placeholder and is none, so that
// a model would read it as it stands.
func (f *stateFlow) checkPlaceholders(t tool.StateText) {
	src := t.Text.Value
	for _, m := range malformedPlaceholder.FindAllStringSubmatchIndex(src, -1) {
		root, sign, rest := src[m[2]:m[3]], src[m[4]:m[5]], src[m[6]:m[7]]
		switch {
		case sign == ":":
			f.checkPrefix(t.Text, root+":"+rest, m[2])
		case slices.Contains(statePrefixes(), root) && !t.Paths && !strings.HasSuffix(src[:m[0]], "$"):
			f.addProblem(t.Text.Warnf(m[0], "placeholder", "%s stays as it is: the prefix of a key ends with a colon", src[m[0]:m[1]]).
				WithHint("write {%s:%s?}; text that shall stay goes into static_instruction", root, rest))
		case root == "state" && !t.Paths && !isOtherTemplate(src, m[0], m[1]):
			f.addProblem(t.Text.Warnf(m[0], "placeholder", "%s stays as it is: here a placeholder is the key alone", src[m[0]:m[1]]).
				WithHint("write {%s}", rest).WithFix(src[m[0]:m[7]], "{"+rest))
		}
	}
	if m := templateTag.FindStringSubmatchIndex(src); m != nil && !t.Paths {
		f.addProblem(t.Text.Warnf(m[0], "placeholder", "%s stays as it is: an instruction has placeholders only, no {%% %s %%}", src[m[0]:m[1]], src[m[2]:m[3]]).
			WithHint("write agents with a when: for the cases; text that shall stay goes into static_instruction"))
	}
}

// isOtherTemplate says that braces belong to a template of another language, as in
// ${state.x} and {{state.x}}.
func isOtherTemplate(src string, from, to int) bool {
	return strings.HasSuffix(src[:from], "$") || strings.HasSuffix(src[:from], "{") || strings.HasPrefix(src[to:], "}")
}

// checkPrefix warns of a key whose prefix is nearly one of the state's.
func (f *stateFlow) checkPrefix(at spec.Text, key string, offset int) {
	prefix, rest, ok := strings.Cut(key, ":")
	if !ok || !isIdentifier(prefix) || rest == "" {
		return
	}
	near := spec.Suggest(prefix, statePrefixes())
	own := prefix == "session" || prefix == "state"
	if near == prefix || near == "" && !own {
		return
	}
	d := at.Warnf(offset, "state-prefix", "%s: is not a prefix of the state; those are app:, user: and temp:", prefix)
	if own {
		f.addProblem(d.WithHint("a key of the session has no prefix: write %s", rest).WithFix(key, rest))
		return
	}
	f.addProblem(d.WithHint("did you mean %q?", near+":"+rest).WithFix(key, near+":"+rest))
}

// isPlaceholderKey says whether a placeholder can name the key.
func isPlaceholderKey(key string) bool {
	prefix, rest, ok := strings.Cut(key, ":")
	if !ok {
		return isIdentifier(key)
	}
	return isIdentifier(prefix) && isIdentifier(rest)
}
