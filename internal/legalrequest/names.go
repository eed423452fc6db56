package legalrequest

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strconv"

	"google.golang.org/genai"
)

// A NameRule states which tool names a service accepts.
type NameRule struct {
	// Legal matches legal characters in a legal order, and illegal one character to replace.
	Legal, Illegal *regexp.Regexp
	Max            int
	// Reserved are names that requests have for other purposes.
	Reserved []string
	// Parameters matches parameter names; nil matches all.
	Parameters *regexp.Regexp
}

// noName replaces an empty name.
const noName = "unnamed_tool"

// IsLegal reports whether the service accepts a name.
func (r *NameRule) IsLegal(name string) bool {
	return len(name) <= r.Max && r.Legal.MatchString(name)
}

// legalName returns the n-th legal name for a name. The first one is as similar as
// possible; the others end with a hash.
func (r *NameRule) legalName(name string, n int) string {
	legal := r.Illegal.ReplaceAllString(name, "_")
	if name == "" {
		legal = noName
	}
	if !r.Legal.MatchString(legal) {
		legal = "_" + legal
	}
	if n == 0 && len(legal) <= r.Max {
		return legal
	}
	suffix := "_" + hashText(name + "\x00" + strconv.Itoa(n))[:8]
	return legal[:min(len(legal), r.Max-len(suffix))] + suffix
}

func hashText(text string) string {
	hash := sha256.Sum256([]byte(text))
	return hex.EncodeToString(hash[:])
}

// NameMap maps tool names to those that are sent, and back. No two names map to the same one. A
// name keeps its mapping as the conversation grows, because declared names come first, and then the
// calls' names in their order.
type NameMap struct {
	rule     *NameRule
	sent     map[string]string
	original map[string]string // by the name that is sent
}

// NewNameMap returns an empty map with the rule.
func NewNameMap(rule *NameRule) *NameMap {
	n := &NameMap{rule: rule, sent: map[string]string{}, original: map[string]string{}}
	for _, name := range rule.Reserved {
		n.original[name] = name
	}
	return n
}

// declareLegal reserves declarations' legal names: they are sent as they are.
func (n *NameMap) declareLegal(declared []*genai.FunctionDeclaration) {
	for _, d := range declared {
		if d != nil && n.rule.IsLegal(d.Name) {
			n.MapName(d.Name)
		}
	}
}

// MapName returns the name that is sent.
func (n *NameMap) MapName(name string) string {
	if sent, ok := n.sent[name]; ok {
		return sent
	}
	sent := name
	if _, taken := n.original[sent]; taken || !n.rule.IsLegal(sent) {
		for i := 0; ; i++ {
			sent = n.rule.legalName(name, i)
			if _, taken := n.original[sent]; !taken {
				break
			}
		}
	}
	n.sent[name], n.original[sent] = sent, name
	return sent
}

// RestoreName returns the name that is sent as name, or else name itself.
func (n *NameMap) RestoreName(sent string) string {
	if name, ok := n.original[sent]; ok {
		return name
	}
	return sent
}
