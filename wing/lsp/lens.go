package lsp

import (
	"context"
	"path/filepath"
	"strings"

	"agenthost/pkg/spec"
)

// A codeLens is a command that an editor shows above a line.
type codeLens struct {
	Range   textRange     `json:"range"`
	Command clientCommand `json:"command"`
}

// A clientCommand is a command that the editor sends back to the server.
type clientCommand struct {
	Title     string `json:"title"`
	Command   string `json:"command"`
	Arguments []any  `json:"arguments"`
}

// The commands of code lenses. A program that has them lists them in Options.Commands.
const (
	// RunTest runs a test; its arguments are the app folder and the test's name.
	RunTest = "agenthost.runTest"
	// EvalCase evaluates a case; its arguments are the app folder, the set's file in it, and the
	// case's name.
	EvalCase = "agenthost.evalCase"
	// PreviewAgent shows the request that an agent's model would receive; its arguments are the app
	// folder and the agent's name.
	PreviewAgent = "agenthost.previewAgent"
)

// listLenses answers textDocument/codeLens: a test's or case's run, and an agent's preview.
func (s *Server) listLenses(_ context.Context, m *message) (any, error) {
	var p openParams
	if err := decodeParams(m, &p); err != nil {
		return nil, err
	}
	path := pathFromURI(p.Document.URI)
	text, ok := s.files.readText(path)
	dir := s.files.findAppFolder(path)
	lenses := []codeLens{}
	if !ok || dir == "" {
		return lenses, nil
	}
	lines := splitIntoLines(text)
	root, ds := spec.Parse(path, []byte(text))
	if ds.HasErrors() {
		return lenses, nil
	}
	add := func(at *spec.Node, title, command string, arguments ...any) {
		if at != nil && at.Kind == spec.Scalar && !at.IsNull() && s.opts.Commands[command] != nil {
			lenses = append(lenses, codeLens{s.rangeOfWord(at.Pos, lines), clientCommand{title, command, append([]any{dir}, arguments...)}})
		}
	}
	c := newCursorAt(path, text, position{}, s)
	switch rel, _ := filepath.Rel(dir, path); c.documentKind() {
	case "test":
		for _, one := range root.Items {
			add(one.Get("name"), "▶ Run test", RunTest, one.Get("name").Text().Value)
		}
	case "eval":
		for _, one := range listItems(root.Get("cases")) {
			add(one.Get("name"), "▶ Evaluate case", EvalCase, filepath.ToSlash(rel), one.Get("name").Text().Value)
		}
	case "agent", "app":
		if !strings.HasSuffix(path, ".yaml") {
			break
		}
		visitAgents(root, c.documentKind() == "agent", func(name *spec.Node) {
			add(name, "▶ Preview request", PreviewAgent, name.Value)
		})
	}
	return lenses, nil
}

// visitAgents visits the names of the agents in a document: the keys under agents, and the names of
// inline agents.
func visitAgents(n *spec.Node, isAgent bool, visit func(name *spec.Node)) {
	if name := n.Get("name"); isAgent && name != nil && name.Kind == spec.Scalar {
		visit(name)
	}
	for _, e := range n.Entries {
		switch e.Key.Value {
		case "sub_agents":
			for _, item := range e.Value.Items {
				visitAgents(item, true, visit)
			}
		case "agents":
			for _, declared := range e.Value.Entries {
				if declared.Value.Get("name") == nil {
					visit(declared.Key)
				}
				visitAgents(declared.Value, true, visit)
			}
		case "root_agent":
			visitAgents(e.Value, true, visit)
		}
	}
}

func listItems(n *spec.Node) []*spec.Node {
	if n == nil {
		return nil
	}
	return n.Items
}
