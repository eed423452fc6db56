package runtime

import (
	"agenthost/pkg/spec"
)

// settingRange is the valid range of a setting of generate_content_config, from
// the documentation of Gemini's API.
type settingRange struct {
	name, camel string
	least, most float64
}

func settingRanges() []settingRange {
	return []settingRange{
		{"temperature", "temperature", 0, 2},
		{"top_p", "topP", 0, 1},
		{"presence_penalty", "presencePenalty", -2, 2},
		{"frequency_penalty", "frequencyPenalty", -2, 2},
	}
}

// checkRanges warns of settings that models reject.
func checkRanges(settings *spec.Node) spec.Diagnostics {
	var ds spec.Diagnostics
	for _, r := range settingRanges() {
		for _, key := range []string{r.name, r.camel} {
			at := settings.Get(key)
			if v, ok := parseNumber(at); ok && (v < r.least || v > r.most) {
				ds = append(ds, at.Warnf("generate-range", "%s %s must be between %v and %v: models reject other values", key, at.Value, r.least, r.most))
				break
			}
		}
	}
	for _, key := range []string{"max_output_tokens", "maxOutputTokens"} {
		at := settings.Get(key)
		if v, ok := parseNumber(at); ok && v < 1 {
			ds = append(ds, at.Warnf("generate-range", "%s %s leaves no tokens for an answer", key, at.Value))
		}
	}
	return ds
}

func parseNumber(n *spec.Node) (float64, bool) {
	if n.IsNull() || n.Kind != spec.Scalar {
		return 0, false
	}
	switch v := n.Any().(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}
