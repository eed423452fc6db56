package loader

import (
	"regexp"

	"agenthost/pkg/spec"
)

// credentialPattern matches the API keys of known services: Google, keys with sk-,
// GitHub, Slack, Amazon, and private keys.
var credentialPattern = regexp.MustCompile(`\bAIza[0-9A-Za-z_-]{35}\b|\bsk-[0-9A-Za-z_-]{24,}|\bgh[pousr]_[0-9A-Za-z]{36}\b|` +
	`\bxox[abprs]-[0-9A-Za-z-]{20,}|\bAKIA[0-9A-Z]{16}\b|-----BEGIN [A-Z ]*PRIVATE KEY-----`)

// minCredentialLength is the length of the shortest match of credentialPattern.
const minCredentialLength = 20

// checkCredentials warns of credentials in a file. The diagnostic omits the source
// line, because diagnostics are logged and served. A value that aliases repeat is
// checked once.
func checkCredentials(n *spec.Node) spec.Diagnostics {
	c := credentialCheck{checked: map[spec.Pos]bool{}}
	c.checkNode(n)
	return c.ds
}

// credentialCheck is the state of one pass over a document.
type credentialCheck struct {
	// checked are the positions of the scalars that were checked; aliases share a
	// position.
	checked map[spec.Pos]bool
	ds      spec.Diagnostics
}

func (c *credentialCheck) checkNode(n *spec.Node) {
	for _, e := range n.Entries {
		c.checkNode(e.Value)
	}
	for _, item := range n.Items {
		c.checkNode(item)
	}
	if n.Kind != spec.Scalar || len(n.Value) < minCredentialLength || c.checked[n.Pos] {
		return
	}
	c.checked[n.Pos] = true
	if at := credentialPattern.FindStringIndex(n.Value); at != nil {
		d := n.Text().Warnf(at[0], "key-in-file", "possible credential in a file").
			WithHint("store it as a secret, and write ${secret:NAME}")
		d.Source = ""
		c.ds = append(c.ds, d)
	}
}
