package openapitool

import (
	"net/url"
	"strings"

	"agenthost/pkg/spec"
)

// findServer returns the service's address: the first server in the operation, its path or the
// document, with its variables' defaults.
func findServer(d *document, op *operation, source string) spec.Text {
	for _, n := range []*spec.Node{op.at, op.item, d.root} {
		servers := n.Get("servers")
		if servers == nil || len(servers.Items) == 0 {
			continue
		}
		at := servers.Items[0].Get("url")
		if !isString(at) {
			continue
		}
		address, ok := expandServer(at.Value, servers.Items[0].Get("variables"))
		if !ok {
			d.reportError(at, "openapi-server", "the server URL with its variables exceeds the limit of %d characters", maxAddress)
		}
		return spec.Text{Value: resolveServer(address, source), Pos: at.Pos}
	}
	return spec.Text{Value: resolveServer("/", source), Pos: d.root.Pos}
}

// expandServer replaces a URL's variables by their defaults. It returns false if the URL is too
// long: variables can contain each other.
func expandServer(address string, variables *spec.Node) (string, bool) {
	if variables != nil && len(address) <= maxAddress {
		for _, e := range variables.Entries {
			value, name := e.Value.Get("default"), "{"+e.Key.Value+"}"
			if value == nil || value.Kind != spec.Scalar {
				continue
			}
			if len(address)+strings.Count(address, name)*len(value.Value) > maxAddress {
				return "", false
			}
			address = strings.ReplaceAll(address, name, value.Value)
		}
	}
	return address, len(address) <= maxAddress
}

// resolveServer resolves a relative address against the document's URL.
func resolveServer(address, source string) string {
	base, err := url.Parse(source)
	if err == nil && base.Scheme != "" && !strings.Contains(address, "://") {
		if to, err := base.Parse(address); err == nil {
			address = to.String()
		}
	}
	return strings.TrimRight(address, "/")
}
