package modelapi

import (
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/model"
)

// Whether a model gets its own thoughts back: never, those that led to the current turn's tool
// calls, or all.
const (
	ThoughtsDrop   = "drop"
	ThoughtsTools  = "tools"
	ThoughtsAlways = "always"
)

// FirstThoughtIndex returns the first content index from which thoughts are sent back.
func FirstThoughtIndex(contents []*genai.Content, mode string) int {
	switch mode {
	case ThoughtsAlways:
		return 0
	case ThoughtsTools:
		for i, c := range slices.Backward(contents) {
			if c.Role != genai.RoleModel && len(model.ResponsesOf(c)) < len(c.Parts) {
				return i + 1
			}
		}
		return 0
	}
	return len(contents)
}

// ThoughtText returns the thoughts from a vendor's own model.
func ThoughtText(parts []*genai.Part, vendor string) string {
	var text strings.Builder
	for _, p := range parts {
		if p == nil || !p.Thought {
			continue
		}
		if owner, _ := PartVendor(p); owner == vendor {
			text.WriteString(p.Text)
		}
	}
	return text.String()
}

// MarkThoughts sets the vendor on a complete response's thoughts, so that only it gets them back.
func MarkThoughts(r *model.Response, vendor, name string) {
	if r == nil || r.Content == nil {
		return
	}
	for i, p := range r.Content.Parts {
		if p.Thought {
			own := *p
			own.PartMetadata = VendorMetadata(vendor, name)
			r.Content.Parts[i] = &own
		}
	}
}

// ResponseMedia returns the files of tool responses as parts of a user message, each after the
// tool's name, for APIs whose tool responses are text only.
func ResponseMedia(responses []*genai.FunctionResponse) []*genai.Part {
	var parts []*genai.Part
	for _, r := range responses {
		files := FilesOfResponse(r)
		if len(files) > 0 {
			parts = append(parts, &genai.Part{Text: "Files in the response from " + r.Name + ":"})
		}
		parts = append(parts, files...)
	}
	return parts
}

// FilesOfResponse returns a tool response's files.
func FilesOfResponse(r *genai.FunctionResponse) []*genai.Part {
	var parts []*genai.Part
	for _, p := range r.Parts {
		switch {
		case p == nil:
		case p.InlineData != nil:
			parts = append(parts, &genai.Part{InlineData: &genai.Blob{
				MIMEType: p.InlineData.MIMEType, Data: p.InlineData.Data, DisplayName: p.InlineData.DisplayName,
			}})
		case p.FileData != nil:
			parts = append(parts, &genai.Part{FileData: &genai.FileData{
				MIMEType: p.FileData.MIMEType, FileURI: p.FileData.FileURI, DisplayName: p.FileData.DisplayName,
			}})
		}
	}
	return parts
}
