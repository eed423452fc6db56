package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"google.golang.org/genai"

	"agenthost/pkg/session"
)

// An artifact is one version: a part whose bytes are stored separately.
type artifact struct {
	Name    string    `json:"name"`
	Created time.Time `json:"createTime"`
	MIME    string    `json:"mimeType,omitempty"`
	// Text reports that the bytes are the part's text, not its inline data.
	Text bool `json:"text,omitempty"`
	// Part is the JSON form of the part without the bytes.
	Part json.RawMessage `json:"part"`
	// Custom is the custom metadata of the version.
	Custom customMetadata `json:"customMetadata,omitempty"`
	bytes  []byte
}

// customMetadata decodes whole numbers as integers.
type customMetadata map[string]any

// UnmarshalJSON decodes by the rules of [session.DecodeMap].
func (c *customMetadata) UnmarshalJSON(b []byte) error {
	m, err := session.DecodeMap(b)
	*c = m
	return err
}

// absenceMIME is the MIME type of an absence.
const absenceMIME = "application/octet-stream"

// Absence returns a part that, as a new version, marks an artifact as deleted:
// empty data of unknown type (adk-python runners.py). Its name stays listed.
func Absence() *genai.Part {
	return &genai.Part{InlineData: &genai.Blob{MIMEType: absenceMIME}}
}

func (rec *artifact) isAbsence() bool {
	return rec.MIME == absenceMIME && !rec.Text && len(rec.bytes) == 0 && !bytes.Contains(rec.Part, []byte(`"fileData"`))
}

// packPart separates the bytes from a part.
func packPart(name string, part *genai.Part) (*artifact, error) {
	if !isStorable(part) {
		return nil, fmt.Errorf("a part with inlineData, fileData or text is required: %w", session.ErrInvalid)
	}
	p := *part
	rec := &artifact{Name: name}
	switch {
	case p.InlineData != nil:
		blob := *p.InlineData
		rec.MIME, rec.bytes = blob.MIMEType, bytes.Clone(blob.Data)
		blob.Data = nil
		p.InlineData = &blob
	case p.FileData != nil:
		rec.MIME = p.FileData.MIMEType
	default:
		rec.Text, rec.bytes = true, []byte(p.Text)
		p.Text = ""
	}
	var err error
	if rec.Part, err = json.Marshal(&p); err != nil {
		return nil, fmt.Errorf("%w: %w", err, session.ErrInvalid)
	}
	return rec, nil
}

// isStorable reports whether a part is content and not a step of a
// conversation, such as a call.
func isStorable(p *genai.Part) bool {
	return p != nil && p.FunctionCall == nil && p.FunctionResponse == nil && p.ExecutableCode == nil &&
		p.CodeExecutionResult == nil && p.ToolCall == nil && p.ToolResponse == nil
}

// restorePart returns the part with its bytes.
func (rec *artifact) restorePart() (*genai.Part, error) {
	p := &genai.Part{}
	if err := json.Unmarshal(rec.Part, p); err != nil {
		return nil, fmt.Errorf("reading artifact %q: %w", rec.Name, err)
	}
	switch {
	case rec.Text:
		p.Text = string(rec.bytes)
	case p.InlineData != nil:
		p.InlineData.Data = bytes.Clone(rec.bytes)
	}
	return p, nil
}

func (rec *artifact) describeVersion(version int, uri string) session.ArtifactVersion {
	custom := maps.Clone(rec.Custom)
	for k, v := range custom {
		custom[k] = cloneValue(v)
	}
	return session.ArtifactVersion{Version: version, CanonicalURI: uri, CustomMetadata: custom, Created: rec.Created, MIMEType: rec.MIME}
}
