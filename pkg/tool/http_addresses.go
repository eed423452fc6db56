package tool

import "agenthost/pkg/spec"

// Addresses are those that the tool asks: its host is fixed, whatever its
// placeholders are.
func (c *httpConfig) Addresses() []spec.Text {
	address := c.URL
	address.Value = urlBase.FindString(address.Value)
	return []spec.Text{address}
}
