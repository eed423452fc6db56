package loader

import (
	"regexp"

	"agenthost/pkg/spec"
)

// keyShapes are the forms of keys that services give out: Google's, those that
// begin with sk-, GitHub's, Slack's, Amazon's, and private keys.
var keyShapes = regexp.MustCompile(`\bAIza[0-9A-Za-z_-]{35}\b|\bsk-[0-9A-Za-z_-]{24,}|\bgh[pousr]_[0-9A-Za-z]{36}\b|` +
	`\bxox[abprs]-[0-9A-Za-z-]{20,}|\bAKIA[0-9A-Z]{16}\b|-----BEGIN [A-Z ]*PRIVATE KEY-----`)

// checkKeys warns of keys that stand in a file. The line is not shown: the
// problems of an app are logged and served.
func checkKeys(n *spec.Node) spec.Diagnostics {
	if n.Kind == spec.Scalar {
		at := keyShapes.FindStringIndex(n.Value)
		if at == nil {
			return nil
		}
		d := n.Text().Warnf(at[0], "key-in-file", "this looks like a key, which whoever reads the file can use").
			WithHint("keep it elsewhere, and write ${secret:NAME}")
		d.Source = ""
		return spec.Diagnostics{d}
	}
	var ds spec.Diagnostics
	for _, e := range n.Entries {
		ds = append(ds, checkKeys(e.Value)...)
	}
	for _, item := range n.Items {
		ds = append(ds, checkKeys(item)...)
	}
	return ds
}
