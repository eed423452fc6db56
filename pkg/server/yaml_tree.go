package server

import (
	"bytes"
	"errors"
	"reflect"

	"gopkg.in/yaml.v3"
)

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

// findValue returns the value of a key or nil. The node may be nil.
func findValue(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	if i := findKey(n.Content, key); i >= 0 {
		return n.Content[i+1]
	}
	return nil
}

// findKey returns the index of a key in the content of a mapping, or -1.
func findKey(content []*yaml.Node, key string) int {
	for i := 0; i+1 < len(content); i += 2 {
		if content[i].Value == key {
			return i
		}
	}
	return -1
}

// listItems returns the items of a list, or nil for any other node.
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
