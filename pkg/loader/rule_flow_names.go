package loader

import (
	"regexp"
	"slices"
	"strings"

	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// malformedPlaceholder matches text that resembles a placeholder with a prefix or a
// path.
var malformedPlaceholder = regexp.MustCompile(`\{\s*([A-Za-z_]\w*)([:.])([A-Za-z_]\w*)\??\s*\}`)

// templateTag matches the tags of Jinja and similar template languages.
var templateTag = regexp.MustCompile(`\{%-?\s*(\w+)[^%{}]*%\}`)

// statePrefixes returns the prefixes of state keys, without colons.
func statePrefixes() []string { return []string{"app", "temp", "user"} }

// checkPlaceholders warns of text that resembles a placeholder but is not one, so that
// the model would get it unchanged.
func (f *stateFlow) checkPlaceholders(t tool.StateText) {
	src := t.Text.Value
	for _, m := range malformedPlaceholder.FindAllStringSubmatchIndex(src, -1) {
		root, sign, rest := src[m[2]:m[3]], src[m[4]:m[5]], src[m[6]:m[7]]
		switch {
		case sign == ":":
			f.checkPrefix(t.Text, root+":"+rest, m[2])
		case slices.Contains(statePrefixes(), root) && !t.Paths && !strings.HasSuffix(src[:m[0]], "$"):
			f.addProblem(t.Text.Warnf(m[0], "placeholder", "%s is not a placeholder and stays unchanged: a key prefix ends with a colon", src[m[0]:m[1]]).
				WithHint("write {%s:%s?}, or put literal text into static_instruction", root, rest))
		case root == "state" && !t.Paths && !isOtherTemplate(src, m[0], m[1]):
			f.addProblem(t.Text.Warnf(m[0], "placeholder", "%s is not a placeholder and stays unchanged: a placeholder contains only the key", src[m[0]:m[1]]).
				WithHint("write {%s}", rest).WithFix(src[m[0]:m[7]], "{"+rest))
		}
	}
	if m := templateTag.FindStringSubmatchIndex(src); m != nil && !t.Paths {
		f.addProblem(t.Text.Warnf(m[0], "placeholder", "%s stays unchanged: instructions support placeholders, but not {%% %s %%}", src[m[0]:m[1]], src[m[2]:m[3]]).
			WithHint("use an agent with a when condition for each case, or put literal text into static_instruction"))
	}
}

// isOtherTemplate reports whether braces belong to another template language, as in
// ${state.x} and {{state.x}}.
func isOtherTemplate(src string, from, to int) bool {
	return strings.HasSuffix(src[:from], "$") || strings.HasSuffix(src[:from], "{") || strings.HasPrefix(src[to:], "}")
}

// checkPrefix warns of a key whose prefix is similar to a state prefix.
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
	d := at.Warnf(offset, "state-prefix", "unknown state prefix %s:, must be app:, user: or temp:", prefix)
	if own {
		f.addProblem(d.WithHint("session keys have no prefix: write %s", rest).WithFix(key, rest))
		return
	}
	f.addProblem(d.WithHint("did you mean %q?", near+":"+rest).WithFix(key, near+":"+rest))
}

// isPlaceholderKey reports whether a placeholder can contain the key.
func isPlaceholderKey(key string) bool {
	prefix, rest, ok := strings.Cut(key, ":")
	if !ok {
		return isIdentifier(key)
	}
	return isIdentifier(prefix) && isIdentifier(rest)
}
