package toolconfig

import (
	"fmt"
	"unicode/utf8"

	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// minPreview is the smallest preview, as in adk-go's ToolResultLimit.
const minPreview = 256

// A Preview is the setting preview: a result with more bytes becomes its beginning. 0 disables it.
type Preview spec.Size

// CheckPreview reports a preview that is too small, in the mapping n.
func CheckPreview(n *spec.Node, size spec.Size) spec.Diagnostics {
	at := n.Get("preview")
	if at.IsNull() || size >= minPreview {
		return nil
	}
	return spec.Diagnostics{at.Errorf("value", "preview must be at least %d bytes, got %d", minPreview, int64(size)).WithHint("remove preview for whole results")}
}

// LimitResponse returns a response, or its preview in the form of adk-go's ToolResultLimit. Secrets
// must be redacted before, because a cut one is not found.
func (p Preview) LimitResponse(response map[string]any) map[string]any {
	if p == 0 {
		return response
	}
	text, err := session.EncodeValue(response)
	if err != nil || len(text) <= int(p) {
		return response
	}
	cut := int(p)
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return map[string]any{"output": map[string]any{
		"truncated": true, "original_size_bytes": len(text),
		"message": fmt.Sprintf("The result of %d bytes exceeds the limit of %d. preview is its beginning.", len(text), int64(p)),
		"preview": string(text[:cut]),
	}}
}

// LimitResult is [Preview.LimitResponse] for a result.
func (p Preview) LimitResult(result *tool.Result) *tool.Result {
	if result != nil {
		result.Response = p.LimitResponse(result.Response)
	}
	return result
}
