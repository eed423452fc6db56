package provider

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strconv"

	"google.golang.org/genai"
)

// A nameRule is which names of tools a service accepts.
type nameRule struct {
	// legal matches legal characters in a legal order, and illegal one character to replace.
	legal, illegal *regexp.Regexp
	max            int
	// reserved are names that requests have for other purposes.
	reserved []string
	// parameters matches the names of parameters; nil matches all.
	parameters *regexp.Regexp
}

// noName replaces an empty name.
const noName = "unnamed_tool"

// isLegal reports whether the service accepts a name.
func (r *nameRule) isLegal(name string) bool {
	return len(name) <= r.max && r.legal.MatchString(name)
}

// legalName returns the n-th legal name for a name. The first one is as similar as
// possible; the others end with a hash.
func (r *nameRule) legalName(name string, n int) string {
	legal := r.illegal.ReplaceAllString(name, "_")
	if name == "" {
		legal = noName
	}
	if !r.legal.MatchString(legal) {
		legal = "_" + legal
	}
	if n == 0 && len(legal) <= r.max {
		return legal
	}
	suffix := "_" + hashText(name + "\x00" + strconv.Itoa(n))[:8]
	return legal[:min(len(legal), r.max-len(suffix))] + suffix
}

func hashText(text string) string {
	hash := sha256.Sum256([]byte(text))
	return hex.EncodeToString(hash[:])
}

// nameMap maps the names of tools to those that are sent, and back. No two names have
// the same one. A name keeps its mapping as the conversation grows, because declared names
// come first, and then those of calls in their order.
type nameMap struct {
	rule     *nameRule
	sent     map[string]string
	original map[string]string // by the name that is sent
}

func newNameMap(rule *nameRule) *nameMap {
	n := &nameMap{rule: rule, sent: map[string]string{}, original: map[string]string{}}
	for _, name := range rule.reserved {
		n.original[name] = name
	}
	return n
}

// declareLegal reserves the legal names of declarations: they are sent as they are.
func (n *nameMap) declareLegal(declared []*genai.FunctionDeclaration) {
	for _, d := range declared {
		if d != nil && n.rule.isLegal(d.Name) {
			n.mapName(d.Name)
		}
	}
}

// mapName returns the name that is sent.
func (n *nameMap) mapName(name string) string {
	if sent, ok := n.sent[name]; ok {
		return sent
	}
	sent := name
	if _, taken := n.original[sent]; taken || !n.rule.isLegal(sent) {
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

// restoreName returns the name of which a name is sent, or else the name itself.
func (n *nameMap) restoreName(sent string) string {
	if name, ok := n.original[sent]; ok {
		return name
	}
	return sent
}
