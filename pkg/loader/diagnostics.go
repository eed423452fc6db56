package loader

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"agenthost/internal/policy"
	"agenthost/pkg/spec"
)

// appFieldHints maps keys that other frameworks use to hints about their
// equivalent in app.yaml.
func appFieldHints() map[string]string {
	return map[string]string{
		"session":    "configure the session store with --session-db, and the retention with retention: 30d",
		"sessions":   "configure the session store with --session-db, and the retention with retention: 30d",
		"artifacts":  "configure the artifact store with --artifacts",
		"memory":     "configure the memory store with --memory",
		"sub_agents": "write sub_agents into the root agent: in root_agent.yaml, or under root_agent:",
		"model":      "set model on an agent, or for all agents: defaults: {LlmAgent: {model: NAME}}",
		"env":        "reference environment variables where you need them: ${env:NAME}",
		"version":    "remove it: the language has no versions",
	}
}

// agentFieldHints does the same for agents.
func agentFieldHints() map[string]string {
	const class, text = "use agent_class, such as agent_class: SequentialAgent", "use instruction"
	return map[string]string{
		"type": class, "kind": class, "class": class,
		"prompt": text, "system": text, "system_prompt": text, "system_message": text,
		"output": "use output_key, the state key that stores the response",
		"models": "move models to app.yaml", "plugins": "move plugins to app.yaml", "run_config": "move run_config to app.yaml",
		"temperature": "move it into generate_content_config", "max_tokens": "use max_output_tokens in generate_content_config",
	}
}

// addFieldHints adds hints to the problems about unknown fields of a mapping.
func addFieldHints(ds spec.Diagnostics, n *spec.Node, advice map[string]string) spec.Diagnostics {
	known := map[spec.Pos]string{}
	for _, e := range n.Entries {
		if text := advice[e.Key.Value]; text != "" {
			known[e.Key.Pos] = text
		}
	}
	for i, d := range ds {
		if text := known[d.Pos]; text != "" && d.Rule == "unknown-field" {
			ds[i] = d.WithHint("%s", text)
		}
	}
	return ds
}

// unknownNameError returns the error for a name that is not in a list. The format what
// contains %s for the quoted name.
func unknownNameError(at *spec.Node, what, name string, names []string) spec.Diagnostic {
	d := at.Errorf("unknown-name", "unknown %s; %s", fmt.Sprintf(what, strconv.Quote(name)), listNames(names))
	near := spec.Suggest(name, names)
	if i := slices.IndexFunc(names, func(n string) bool { return strings.HasPrefix(n, name+"_") }); near == "" && i >= 0 {
		near = names[i]
	}
	if near != "" {
		d = d.WithHint("did you mean %q?", near)
	}
	return d
}

func listNames(names []string) string {
	if len(names) == 0 {
		return "none available"
	}
	if len(names) > maxListed {
		return fmt.Sprintf("available: %s and %d more", strings.Join(names[:maxListed], ", "), len(names)-maxListed)
	}
	return "available: " + strings.Join(names, ", ")
}

// policyDiagnostic converts a refusal to a diagnostic at its position.
func policyDiagnostic(err error, at spec.Text) spec.Diagnostics {
	refused := (*policy.Refused)(nil)
	if !errors.As(err, &refused) {
		return nil
	}
	return spec.Diagnostics{at.Errorf(0, "grant", "%s", refused.Message()).WithHint("%s", refused.Hint())}
}

// slashHint is the hint for paths with backslashes.
const slashHint = `write / instead of \`

// addSlashHint adds slashHint to the diagnostic of such a path.
func addSlashHint(d spec.Diagnostic, given string) spec.Diagnostic {
	if strings.Contains(given, "\\") {
		return d.WithHint("%s: %s", slashHint, strings.ReplaceAll(given, "\\", "/"))
	}
	return d
}

func isIdentifier(s string) bool {
	for i, r := range s {
		if r != '_' && !unicode.IsLetter(r) && (i == 0 || !unicode.IsDigit(r)) {
			return false
		}
	}
	return s != ""
}

// mergeByPlace joins warnings of one rule at one place, which differ only in the
// agents that lead there, into the first.
func mergeByPlace(ds spec.Diagnostics) spec.Diagnostics {
	type place struct {
		pos  spec.Pos
		rule string
	}
	first, more := map[place]int{}, map[int]int{}
	var merged spec.Diagnostics
	for _, d := range ds {
		at := place{d.Pos, d.Rule}
		if i, ok := first[at]; ok {
			if d.Message != merged[i].Message {
				more[i]++
			}
			continue
		}
		first[at] = len(merged)
		merged = append(merged, d)
	}
	for i, n := range more {
		merged[i].Message += fmt.Sprintf("; the same for other agents: %d", n)
	}
	return merged
}

// checkConfig runs the config's own validation.
func checkConfig(config any, n *spec.Node) spec.Diagnostics {
	if c, ok := config.(spec.Checker); ok {
		return c.Check(n)
	}
	return nil
}

// formatOSError formats an error without the operation and the path.
func formatOSError(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "file not found"
	}
	return err.Error()
}
