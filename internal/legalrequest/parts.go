package legalrequest

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/internal/modelapi"
)

// A MediaRule is which files a service accepts.
type MediaRule struct {
	// Inline are the data types.
	Inline []string
	Files  []FileRule
	// OfModel is set if model contents may have files; anyImage, if the service takes images whose
	// form is unknown here.
	OfModel, AnyImage bool
}

// A FileRule is an address prefix, and the type of the files there.
type FileRule struct{ Address, Kind string }

// matchType reports whether a type matches a pattern such as image/png or image/*. The
// pattern */* matches all types, and * also none.
func matchType(pattern, kind string) bool {
	if pattern == "*/*" {
		return kind != ""
	}
	prefix, isPrefix := strings.CutSuffix(pattern, "*")
	return isPrefix && strings.HasPrefix(kind, prefix) || pattern == kind
}

// legalParts returns contents in which each part has one kind of data that the service takes. A
// file that it does not take becomes a note. Contents are not modified; unchanged ones are shared.
func (r *Rules) legalParts(contents []*genai.Content) []*genai.Content {
	legal := contents
	for i, c := range contents {
		own := r.legalContent(c)
		if own == c {
			continue
		}
		if &legal[0] == &contents[0] {
			legal = slices.Clone(contents)
		}
		legal[i] = own
	}
	return legal
}

func (r *Rules) legalContent(c *genai.Content) *genai.Content {
	if c == nil {
		return nil
	}
	var parts []*genai.Part
	changed := false
	for i, p := range c.Parts {
		singles, legal := separateData(p), p
		if singles == nil {
			legal = r.legalPart(c.Role, p)
			singles = []*genai.Part{legal}
		} else {
			for j, single := range singles {
				singles[j] = r.legalPart(c.Role, single)
			}
			legal = nil
		}
		if legal != p && !changed {
			parts, changed = slices.Clone(c.Parts[:i]), true
		}
		if changed {
			parts = append(parts, singles...)
		}
	}
	if !changed {
		return c
	}
	return &genai.Content{Role: c.Role, Parts: parts}
}

// separateData returns one part for each kind of data in a part that has several, else nil. The
// signature stays with the first.
func separateData(p *genai.Part) []*genai.Part {
	if p == nil || countData(p) < 2 {
		return nil
	}
	var parts []*genai.Part
	for _, single := range []genai.Part{
		{FunctionCall: p.FunctionCall},
		{FunctionResponse: p.FunctionResponse},
		{InlineData: p.InlineData, VideoMetadata: p.VideoMetadata},
		{FileData: p.FileData, VideoMetadata: p.VideoMetadata},
		{ExecutableCode: p.ExecutableCode},
		{CodeExecutionResult: p.CodeExecutionResult},
		{Text: p.Text},
	} {
		if countData(&single) > 0 {
			parts = append(parts, &single)
		}
	}
	parts[0].Thought, parts[0].ThoughtSignature, parts[0].PartMetadata = p.Thought, p.ThoughtSignature, p.PartMetadata
	return parts
}

// countData returns how many kinds of data a part has.
func countData(p *genai.Part) int {
	n := 0
	for _, is := range [...]bool{
		p.FunctionCall != nil, p.FunctionResponse != nil, p.InlineData != nil, p.FileData != nil,
		p.ExecutableCode != nil, p.CodeExecutionResult != nil, p.Text != "",
	} {
		if is {
			n++
		}
	}
	return n
}

// legalPart returns a part that the service takes: p itself, another one or, if there is
// nothing to send, nil.
func (r *Rules) legalPart(role string, p *genai.Part) *genai.Part {
	switch {
	case p == nil:
		return nil
	case p.InlineData != nil:
		return r.legalData(role, p)
	case p.FileData != nil:
		return r.legalFile(role, p)
	case p.FunctionResponse != nil:
		return r.legalResponse(p)
	case !r.BlankText && !p.Thought && p.Text != "" && strings.TrimSpace(p.Text) == "":
		return nil
	}
	return p
}

// ofModelReason explains why a model's file is not sent.
const ofModelReason = "this service takes no files from the model"

// legalData returns a part with data, with its type if it had none, or a note.
func (r *Rules) legalData(role string, p *genai.Part) *genai.Part {
	kind, reason := r.Media.checkData(p.InlineData.MIMEType, p.InlineData.Data)
	if reason == "" && role == genai.RoleModel && !r.Media.OfModel {
		reason = ofModelReason
	}
	if reason != "" {
		return &genai.Part{Text: describeOmission(p.InlineData.DisplayName, kind, reason)}
	}
	if kind == p.InlineData.MIMEType {
		return p
	}
	own, data := *p, *p.InlineData
	data.MIMEType, own.InlineData = kind, &data
	return &own
}

// legalFile returns a part with a file by its address, with its type if it had none, or a
// note.
func (r *Rules) legalFile(role string, p *genai.Part) *genai.Part {
	kind, reason := r.Media.checkFile(p.FileData.MIMEType, p.FileData.FileURI)
	if reason == "" && role == genai.RoleModel && !r.Media.OfModel {
		reason = ofModelReason
	}
	if reason != "" {
		return &genai.Part{Text: describeOmission(nameOfFile(p.FileData.DisplayName, p.FileData.FileURI), kind, reason)}
	}
	if kind == p.FileData.MIMEType {
		return p
	}
	own, file := *p, *p.FileData
	file.MIMEType, own.FileData = kind, &file
	return &own
}

// maxNoted limits the address and the type in a note.
const maxNoted = 200

// nameOfFile returns a file's name in notes.
func nameOfFile(name, address string) string {
	if name != "" {
		return name
	}
	return address[:min(len(address), maxNoted)]
}

// describeOmission returns the note that replaces a file, so that the model does not
// answer as if there had been none.
func describeOmission(name, kind, reason string) string {
	file := "a file"
	if name != "" {
		file = fmt.Sprintf("the file %q", strings.ToValidUTF8(name, "\uFFFD"))
	}
	if kind != "" {
		file += " of type " + strings.ToValidUTF8(kind[:min(len(kind), maxNoted)], "\uFFFD")
	}
	return "[" + file + " was left out: " + reason + "]"
}

// omittedFilesKey is the response field that has the notes about its files.
const omittedFilesKey = "files_left_out"

// legalResponse returns a response whose files the service takes. Notes about the others are a
// field in the response.
func (r *Rules) legalResponse(p *genai.Part) *genai.Part {
	var kept []*genai.FunctionResponsePart
	var notes []any
	for _, part := range p.FunctionResponse.Parts {
		legal, note := r.legalResponsePart(part)
		if legal != nil {
			kept = append(kept, legal)
		}
		if note != "" {
			notes = append(notes, note)
		}
	}
	if slices.Equal(kept, p.FunctionResponse.Parts) {
		return p
	}
	own, response := *p, *p.FunctionResponse
	response.Parts, own.FunctionResponse = kept, &response
	if len(notes) > 0 {
		response.Response = maps.Clone(response.Response)
		if response.Response == nil {
			response.Response = map[string]any{}
		}
		response.Response[omittedFilesKey] = notes
	}
	return &own
}

// legalResponsePart returns a response file that the service takes, or a note.
func (r *Rules) legalResponsePart(p *genai.FunctionResponsePart) (legal *genai.FunctionResponsePart, note string) {
	switch {
	case p == nil:
		return nil, ""
	case p.InlineData != nil:
		kind, reason := r.Media.checkData(p.InlineData.MIMEType, p.InlineData.Data)
		if reason != "" {
			return nil, describeOmission(p.InlineData.DisplayName, kind, reason)
		}
		if kind == p.InlineData.MIMEType && p.FileData == nil {
			return p, ""
		}
		return &genai.FunctionResponsePart{InlineData: &genai.FunctionResponseBlob{MIMEType: kind, Data: p.InlineData.Data, DisplayName: p.InlineData.DisplayName}}, ""
	case p.FileData != nil:
		kind, reason := r.Media.checkFile(p.FileData.MIMEType, p.FileData.FileURI)
		if reason != "" {
			return nil, describeOmission(nameOfFile(p.FileData.DisplayName, p.FileData.FileURI), kind, reason)
		}
		if kind == p.FileData.MIMEType {
			return p, ""
		}
		return &genai.FunctionResponsePart{FileData: &genai.FunctionResponseFileData{MIMEType: kind, FileURI: p.FileData.FileURI, DisplayName: p.FileData.DisplayName}}, ""
	}
	return nil, ""
}

// checkData returns the data's type without its parameters, and why the service does not take it,
// or "". An image's type is its data's: services reject another one.
func (r *MediaRule) checkData(declared string, data []byte) (kind, reason string) {
	kind = declared
	base := modelapi.BaseType(declared)
	detected := modelapi.BaseType(http.DetectContentType(data))
	switch {
	case len(data) == 0 || modelapi.IsTextType(base) && len(bytes.TrimSpace(data)) == 0:
		return kind, "it is empty"
	case base == "" && detected == "application/octet-stream":
		return kind, "its type is unknown"
	case base == "":
		kind, base = detected, detected
	}
	takes := func(kind string) bool {
		return slices.ContainsFunc(r.Inline, func(pattern string) bool { return matchType(pattern, kind) })
	}
	isImage := strings.HasPrefix(base, "image/")
	if isImage && slices.Contains(WebImages, detected) && detected != base {
		kind, base = detected, detected
	}
	switch {
	case !takes(base):
		return kind, "this service does not take files of this type"
	case isImage && !r.AnyImage && base != detected, base == "application/pdf" && !isPDF(data):
		return kind, "its data is not of this type"
	}
	return kind, ""
}

// isPDF reports whether data has a PDF header.
func isPDF(data []byte) bool { return bytes.Contains(data[:min(len(data), 1024)], []byte("%PDF")) }

// fileTypes are the file types by address suffix.
var fileTypes = map[string]string{
	".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp", ".pdf": "application/pdf",
	".txt": "text/plain", ".md": "text/markdown", ".csv": "text/csv", ".html": "text/html", ".json": "application/json",
	".mp3": "audio/mpeg", ".wav": "audio/wav", ".mp4": "video/mp4", ".mov": "video/quicktime", ".webm": "video/webm",
}

// checkFile returns the type of the file at an address, and why the service does not take
// it, or "".
func (r *MediaRule) checkFile(declared, address string) (kind, reason string) {
	kind = declared
	if kind == "" {
		bare, _, _ := strings.Cut(address, "?")
		kind = fileTypes[strings.ToLower(path.Ext(bare))]
	}
	base := modelapi.BaseType(kind)
	byAddress, known := false, false
	for _, rule := range r.Files {
		if strings.HasPrefix(address, rule.Address) {
			byAddress = true
			known = known || matchType(rule.Kind, base)
		}
	}
	switch {
	case address == "":
		return kind, "it has no address"
	case !byAddress:
		return kind, "this service does not load files from this address"
	case !known && base == "":
		return kind, "its type is unknown"
	case !known:
		return kind, "this service does not load files of this type"
	}
	return kind, ""
}
