package toolconfig

import (
	"strings"
	"testing"
	"unicode/utf8"

	"agenthost/pkg/spec"
)

// A result with more bytes becomes its beginning, cut between characters.
func TestPreview(t *testing.T) {
	small := map[string]any{"a": "x"}
	if got := Preview(256).LimitResponse(small); got["a"] != "x" {
		t.Errorf("a small result became %v", got)
	}
	large := map[string]any{"a": strings.Repeat("é", 1000)}
	if got := Preview(0).LimitResponse(large); got["output"] != nil {
		t.Errorf("without a limit the result became %v", got)
	}
	for size := range Preview(2) {
		output, _ := Preview(256 + size).LimitResponse(large)["output"].(map[string]any)
		text, _ := output["preview"].(string)
		if output["truncated"] != true || output["original_size_bytes"] != 2008 || len(text) > 257 || len(text) < 255 || !utf8.ValidString(text) {
			t.Errorf("the preview is %v", output)
		}
	}
}

// A preview that is too small is an error at its place.
func TestSmallPreview(t *testing.T) {
	n, _ := spec.Parse("a.yaml", []byte("preview: 100\n"))
	ds := CheckPreview(n, 100)
	if len(ds) != 1 || !strings.Contains(ds[0].Message, "preview must be at least 256 bytes, got 100") {
		t.Errorf("the problems are %v", ds)
	}
}
