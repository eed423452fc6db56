package devui

import (
	"bytes"
	"errors"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"agenthost/internal/appfolder"
)

// A builderMerger preserves fields that ADK's visual builder would drop. The builder rewrites
// whole files but supports only some ADK fields and no agenthost fields.
type builderMerger struct {
	read    func(name string) ([]byte, error)
	visited map[string]bool       // files already read
	agents  map[string]*yaml.Node // by name
	kept    []string
}

// mergeBuilderFiles merges the builder's files into an app's files and returns the merged
// files and the names of preserved fields.
func (s *handlers) mergeBuilderFiles(app string, files map[string][]byte) (map[string][]byte, []string) {
	k := &builderMerger{
		read:    func(name string) ([]byte, error) { return appfolder.ReadFile(s.opts.Folders, app, name) },
		visited: map[string]bool{},
		agents:  map[string]*yaml.Node{},
	}
	k.collectFile(rootAgentFile)
	merged := make(map[string][]byte, len(files))
	for _, name := range slices.Sorted(maps.Keys(files)) {
		k.collectFile(name)
		merged[name] = files[name]
		if name != appFile {
			merged[name] = k.mergeFile(name, files[name])
		}
	}
	return merged, k.kept
}

// collectFile collects the agents in a file and in the files it refers to.
func (k *builderMerger) collectFile(name string) {
	if k.visited[name] || name == appFile {
		return
	}
	k.visited[name] = true
	text, err := k.read(name)
	if err != nil {
		return
	}
	if doc, err := parseTree(text); err == nil {
		k.collectAgent(doc, doc.Content[0], path.Dir(name))
	}
}

// collectAgent records an agent by its name; the first one wins. The tree is the
// document if the agent is its root, so that its leading and trailing comments are
// kept.
func (k *builderMerger) collectAgent(tree, agent *yaml.Node, dir string) {
	if name := findValue(agent, "name"); name != nil && k.agents[name.Value] == nil {
		k.agents[name.Value] = tree
	}
	for _, list := range []string{"sub_agents", "tools"} {
		for _, ref := range listItems(findValue(agent, list)) {
			if inner := findValue(findValue(ref, "args"), "agent"); inner != nil {
				ref = inner
			}
			if file := findValue(ref, "config_path"); file != nil {
				k.collectFile(path.Join(dir, file.Value))
			} else if list == "sub_agents" {
				k.collectAgent(ref, ref, dir)
			}
		}
	}
}

// mergeFile merges a builder file into the agent with the same name. A file that cannot be
// merged stays as sent; saving then reports its errors.
func (k *builderMerger) mergeFile(file string, text []byte) []byte {
	sent, err := parseTree(text)
	if err != nil {
		return text
	}
	name := findValue(sent.Content[0], "name")
	if name == nil || k.agents[name.Value] == nil {
		return text
	}
	old := k.agents[name.Value]
	agent := old
	if old.Kind == yaml.DocumentNode {
		agent = old.Content[0]
	}
	m := &nodeMerger{}
	m.mergeMapping(agent, sent.Content[0], "", func(key string) bool { return !slices.Contains(omittedWhenEmpty, key) })
	out, err := encodeTree(old)
	if err != nil {
		return text
	}
	for _, field := range m.kept {
		k.kept = append(k.kept, file+": "+field)
	}
	return out
}

// omittedWhenEmpty lists the fields that the builder omits when they are empty. It
// always writes the other fields it supports.
var omittedWhenEmpty = []string{"description", "max_iterations"}

// A nodeMerger merges sent values into an existing tree and records the preserved
// fields.
type nodeMerger struct{ kept []string }

// mergeMapping keeps the order and the comments of old. Keys that were not sent stay if keep returns
// true.
func (m *nodeMerger) mergeMapping(old, sent *yaml.Node, at string, keep func(key string) bool) {
	var out []*yaml.Node
	for i := 0; i+1 < len(old.Content); i += 2 {
		key, value := old.Content[i], old.Content[i+1]
		now := findValue(sent, key.Value)
		switch {
		case now != nil:
			out = append(out, key, m.mergeValue(value, now, at+key.Value))
		case keep(key.Value):
			out = append(out, key, value)
			m.kept = append(m.kept, at+key.Value)
		}
	}
	after := 0
	for i := 0; i+1 < len(sent.Content); i += 2 {
		if at := findKey(out, sent.Content[i].Value); at >= 0 {
			after = at + 2
			continue
		}
		out = slices.Insert(out, after, sent.Content[i], sent.Content[i+1])
		after += 2
	}
	old.Content = out
}

// mergeValue returns the old node if its value is unchanged, to keep its comments and
// style.
func (m *nodeMerger) mergeValue(old, now *yaml.Node, at string) *yaml.Node {
	switch {
	case equalNodes(old, now):
		return old
	case at == "tools":
		m.mergeTools(old, now)
		now.Style = old.Style
	case strings.HasPrefix(at, "tools[AgentTool ") && old.Kind == yaml.MappingNode:
		// The builder replaces these args with the two that it supports.
		m.mergeMapping(old, now, at+".", func(string) bool { return true })
		return old
	}
	now.HeadComment, now.LineComment, now.FootComment = old.HeadComment, old.LineComment, old.FootComment
	if old.Style&yaml.LiteralStyle != 0 && strings.Contains(now.Value, "\n") {
		now.Style = yaml.LiteralStyle
	}
	return now
}

// mergeTools merges tools with equal names. In the builder, agenthost's own tools have no
// name: it sends none, or an empty entry for each. If their numbers differ, they cannot be
// matched.
func (m *nodeMerger) mergeTools(old, now *yaml.Node) {
	nameless := func(t *yaml.Node) bool { return toolKey(t) == "" }
	omitted := !slices.ContainsFunc(listItems(now), nameless)
	before := map[string][]*yaml.Node{}
	for i, tool := range listItems(old) {
		name := toolKey(tool)
		before[name] = append(before[name], tool)
		if omitted && name == "" {
			at := min(i, len(now.Content))
			now.Content = slices.Insert(now.Content, at, &yaml.Node{Kind: yaml.MappingNode})
		}
	}
	if sent := slices.DeleteFunc(slices.Clone(listItems(now)), func(t *yaml.Node) bool { return !nameless(t) }); len(sent) != len(before[""]) {
		delete(before, "")
	}
	for i, tool := range listItems(now) {
		name := toolKey(tool)
		if len(before[name]) == 0 {
			continue
		}
		was := before[name][0]
		before[name] = before[name][1:]
		if was.Kind == yaml.MappingNode {
			m.mergeMapping(was, tool, "tools["+name+"].", func(key string) bool { return key != "args" })
			now.Content[i] = was
		}
	}
}

// toolKey identifies a tool by its name; an agent tool also by its agent's file.
func toolKey(tool *yaml.Node) string {
	name := findValue(tool, "name")
	if name == nil {
		return ""
	}
	if file := findValue(findValue(findValue(tool, "args"), "agent"), "config_path"); file != nil {
		return name.Value + " " + path.Clean(file.Value)
	}
	return name.Value
}

var errUnsupportedYAML = errors.New("document must be a mapping without anchors")

// parseTree parses a document that is a mapping and keeps its comments. A document with
// anchors is an error, because its nodes cannot be moved independently.
func parseTree(text []byte) (*yaml.Node, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	if len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode || hasAnchors(&doc) {
		return nil, errUnsupportedYAML
	}
	return &doc, nil
}

func hasAnchors(n *yaml.Node) bool {
	if n.Anchor != "" || n.Kind == yaml.AliasNode {
		return true
	}
	for _, part := range n.Content {
		if hasAnchors(part) {
			return true
		}
	}
	return false
}

// encodeTree encodes a tree or a subtree as a document.
func encodeTree(n *yaml.Node) ([]byte, error) {
	if n.Kind == yaml.MappingNode {
		n.Style &^= yaml.FlowStyle
	}
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(n); err != nil {
		return nil, err
	}
	return out.Bytes(), enc.Close()
}

// findValue returns a key's value or nil. The node may be nil.
func findValue(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	if i := findKey(n.Content, key); i >= 0 {
		return n.Content[i+1]
	}
	return nil
}

// findKey returns a key's index in a mapping's content, or -1.
func findKey(content []*yaml.Node, key string) int {
	for i := 0; i+1 < len(content); i += 2 {
		if content[i].Value == key {
			return i
		}
	}
	return -1
}

// listItems returns a list's items, or nil for any other node.
func listItems(n *yaml.Node) []*yaml.Node {
	if n == nil || n.Kind != yaml.SequenceNode {
		return nil
	}
	return n.Content
}

// equalNodes reports whether two nodes have the same value.
func equalNodes(a, b *yaml.Node) bool {
	var x, y any
	return a.Decode(&x) == nil && b.Decode(&y) == nil && reflect.DeepEqual(x, y)
}
