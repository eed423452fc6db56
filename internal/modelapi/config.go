package modelapi

import (
	"agenthost/pkg/provider"
	"agenthost/pkg/spec"
)

// DecodeService decodes and checks a service's settings. base and calls are fields in dst.
func DecodeService(n *spec.Node, dst any, base *spec.Text, calls *provider.CallsConfig) spec.Diagnostics {
	ds := spec.Decode(n, dst)
	if base.Value != "" {
		if problem := BadBaseURL(base.Value); problem != "" {
			ds = append(ds, base.Errorf(0, "value", "%s", problem))
		}
	}
	ds = append(ds, calls.ValidateCalls(n)...)
	ds.Sort()
	return ds
}
