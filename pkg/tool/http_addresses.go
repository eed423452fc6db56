package tool

import "agenthost/pkg/spec"

// Addresses returns the URL that the tool calls, without its path: the host is
// fixed.
func (c *httpConfig) Addresses() []spec.Text {
	address := c.URL
	address.Value = ConstantHost(address.Value)
	return []spec.Text{address}
}
