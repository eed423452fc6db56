package toolconfig

import (
	"regexp"
	"slices"
	"strings"

	"agenthost/pkg/spec"
)

// JoinCommand reports a command that is one string, and arguments in a field of their own, as other
// programs write them: here both are one list. The returned mapping has the list.
func JoinCommand(n *spec.Node) (*spec.Node, spec.Diagnostics) {
	command, args := n.Get("command"), n.Get("args")
	isText := !command.IsNull() && command.Kind == spec.Scalar
	if n.Kind != spec.Mapping || command.IsNull() || !isText && args == nil {
		return n, nil
	}
	list := *command
	if isText {
		list.Kind, list.Tag, list.Value, list.Items = spec.Sequence, "!!seq", "", nil
		for _, word := range strings.Fields(command.Value) {
			item := *command
			item.Value = word
			list.Items = append(list.Items, &item)
		}
	}
	at, message := command, "command must be a list: the program and its arguments"
	if args != nil {
		at, message = keyOf(n, "args"), "args is not a field: the arguments belong to command"
		list.Items = append(slices.Clip(list.Items), args.Items...)
	}
	d := at.Errorf("type", "%s", message)
	switch words := formatWords(list.Items); {
	case words == "" || isText && strings.ContainsAny(command.Value, shellCharacters):
		d = d.WithHint("write the program and each argument as an element: command: [PROGRAM, ARGUMENT]; there is no shell")
	case args != nil:
		d = d.WithHint("write command: [%s]", words)
	default:
		d = d.WithHint("write command: [%s]", words).WithFix(command.Value, "["+words+"]")
	}
	joined := *n
	joined.Entries = nil
	for _, e := range n.Entries {
		switch e.Key.Value {
		case "command":
			joined.Entries = append(joined.Entries, spec.Entry{Key: e.Key, Value: &list})
		case "args":
		default:
			joined.Entries = append(joined.Entries, e)
		}
	}
	return &joined, spec.Diagnostics{d}
}

func keyOf(n *spec.Node, key string) *spec.Node {
	at := slices.IndexFunc(n.Entries, func(e spec.Entry) bool { return e.Key.Value == key })
	return n.Entries[at].Key
}

// shellCharacters separate or quote words in a shell, so that spaces alone do not.
const shellCharacters = "\"'`\\$|&;<>()*?{}"

// plainWord matches words that need no quotes inside brackets.
var plainWord = regexp.MustCompile(`^[A-Za-z./_-][A-Za-z0-9./_=+-]*$`)

// formatWords formats a command for a list on one line. It returns "" if an element is not a word,
// or has a reference, whose value may be secret.
func formatWords(items []*spec.Node) string {
	words := make([]string, len(items))
	for i, item := range items {
		if item.Kind != spec.Scalar || item.IsNull() || item.HasReference() {
			return ""
		}
		if words[i] = item.Value; !plainWord.MatchString(item.Value) {
			words[i] = "'" + strings.ReplaceAll(item.Value, "'", "''") + "'"
		}
	}
	return strings.Join(words, ", ")
}
