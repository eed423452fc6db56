package loader

import (
	"regexp"

	"agenthost/pkg/spec"
)

// credentialPattern are the forms of keys that services give out: Google's, those that
// begin with sk-, GitHub's, Slack's, Amazon's, and private keys.
var credentialPattern = regexp.MustCompile(`\bAIza[0-9A-Za-z_-]{35}\b|\bsk-[0-9A-Za-z_-]{24,}|\bgh[pousr]_[0-9A-Za-z]{36}\b|` +
	`\bxox[abprs]-[0-9A-Za-z-]{20,}|\bAKIA[0-9A-Z]{16}\b|-----BEGIN [A-Z ]*PRIVATE KEY-----`)

// minCredentialLength is the length of the shortest of these forms.
const minCredentialLength = 20

// checkCredentials warns of credentials written in a file. The line is not shown: the
// problems of an app are logged and served. A value that aliases repeat is
// checked once.
func checkCredentials(n *spec.Node) spec.Diagnostics {
	c := credentialCheck{checked: map[spec.Pos]bool{}}
	c.checkNode(n)
	return c.ds
}

// credentialCheck is one pass over a document.
type credentialCheck struct {
	// checked are the places of the scalars so far: aliases share one.
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
		d := n.Text().Warnf(at[0], "key-in-file", "this looks like a key, which whoever reads the file can use").
			WithHint("keep it elsewhere, and write ${secret:NAME}")
		d.Source = ""
		c.ds = append(c.ds, d)
	}
}
