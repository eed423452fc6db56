package evalfile

import "agenthost/pkg/eval"

// MergeConfigs returns the config of a set from its own, which eval files have, and from
// that of its folder. Either may be nil.
func MergeConfigs(own, folder *eval.Config) *eval.Config {
	if own != nil && own.Criteria != nil {
		return own
	}
	merged := eval.Config{}
	if folder != nil {
		merged = *folder
	}
	if merged.Criteria == nil {
		merged.Criteria = eval.DefaultConfig().Criteria
	}
	if own != nil {
		merged.Simulator = own.Simulator
	}
	return &merged
}
