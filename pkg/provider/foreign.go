package provider

import (
	"regexp"
	"slices"
	"strings"

	"google.golang.org/genai"
)

// The vendors of parts.
const (
	geminiVendor    = "gemini"
	anthropicVendor = "anthropic"
)

// Keys of a part's metadata. They name the vendor and the model that signed the part, or
// whose form its data has. Gemini marks no parts.
const (
	vendorKey      = "vendor"
	vendorModelKey = "model"
)

// redactedKey marks a thought whose text the service encrypted.
const redactedKey = "redacted"

// vendorMetadata returns the metadata of a part that only a vendor's model may get back.
func vendorMetadata(vendor, model string) map[string]any {
	return map[string]any{vendorKey: vendor, vendorModelKey: model}
}

// MarkClaudeThoughts marks the signed thoughts of Claude in a content of adk-python, which
// does not mark them, with the version of the model that wrote them: only this model gets
// them back, and no other vendor gets its signatures. It does nothing if the version is
// not Claude's, and modifies the parts of c otherwise.
func MarkClaudeThoughts(c *genai.Content, version string) {
	name := strings.TrimPrefix(bareModelName(version), "anthropic/")
	if c == nil || !strings.HasPrefix(name, "claude-") {
		return
	}
	for _, p := range c.Parts {
		if p == nil || !p.Thought || len(p.ThoughtSignature) == 0 || p.PartMetadata != nil {
			continue
		}
		p.PartMetadata = vendorMetadata(anthropicVendor, name)
		if p.Text == "" { // as adk-python stores encrypted thoughts
			p.PartMetadata[redactedKey] = true
		}
	}
}

// claudeDate matches the date at the end of a version of Claude.
var claudeDate = regexp.MustCompile(`[-@]20[0-9]{6}$`)

// isSigner reports whether a model of Claude wrote what signer signed: it has this name,
// or the name without a date of this version.
func isSigner(signer, name string) bool {
	return signer == name || claudeDate.ReplaceAllString(signer, "") == name
}

// partVendor returns the vendor and the model that signed a part, or empty names.
func partVendor(p *genai.Part) (vendor, model string) {
	vendor, _ = p.PartMetadata[vendorKey].(string)
	model, _ = p.PartMetadata[vendorModelKey].(string)
	return vendor, model
}

// withoutForeignParts returns the contents for a vendor that rejects the signatures of
// others: it drops thoughts of other vendors, and the signatures and the metadata of
// their other parts. Parts without a vendor are kept. It does not modify contents;
// unchanged ones are shared.
func withoutForeignParts(contents []*genai.Content, vendor string) []*genai.Content {
	isForeign := func(p *genai.Part) bool {
		if p == nil {
			return false
		}
		owner, _ := partVendor(p)
		return owner != "" && owner != vendor
	}
	own := contents
	for i, c := range contents {
		if c == nil || !slices.ContainsFunc(c.Parts, isForeign) {
			continue
		}
		if &own[0] == &contents[0] {
			own = slices.Clone(contents)
		}
		var parts []*genai.Part
		for _, p := range c.Parts {
			switch {
			case !isForeign(p):
				parts = append(parts, p)
			case !p.Thought:
				bare := *p
				bare.ThoughtSignature, bare.PartMetadata = nil, nil
				parts = append(parts, &bare)
			}
		}
		own[i] = &genai.Content{Role: c.Role, Parts: parts}
	}
	return own
}
