package provider

import "agenthost/pkg/spec"

// decodeService decodes and checks the settings of a service. base and calls are fields
// of dst.
func decodeService(n *spec.Node, dst any, base *spec.Text, calls *CallsConfig) spec.Diagnostics {
	ds := spec.Decode(n, dst)
	if base.Value != "" {
		if problem := badBaseURL(base.Value); problem != "" {
			ds = append(ds, base.Errorf(0, "value", "%s", problem))
		}
	}
	ds = append(ds, calls.ValidateCalls(n)...)
	ds.Sort()
	return ds
}
